//go:build go1.26 && !go1.27 && !spindle_portable && !spindle_noasm

package goid

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"unsafe"
)

// skippedCaller returns where the caller of a function that a signal has stopped continues, if
// frame pointers do not lead there, and 0 if they do. The function of the signal has the frame
// at bp.
//
//go:norace
//go:nocheckptr
func skippedCaller(bp uintptr, frame [2]uintptr, within func(uintptr) bool) uintptr {
	at := bp + 16 // where the stack of the function that was stopped ends
	switch frameAt(frame[1]) {
	case framePushed:
		at += 8
	case frameMade:
		return 0
	}
	if !within(at) {
		return 0
	}
	return *(*uintptr)(unsafe.Add(nil, at))
}

// frameState is what a function that was stopped has done about its frame.
type frameState int

const (
	frameMade   frameState = iota // frame pointers lead to the caller
	frameNone                     // there is none, or not yet, or no more: the stack ends with the return address
	framePushed                   // the caller's frame pointer was pushed after the return address, and BP is still that of the caller
)

// frameAt returns what a function that was stopped at pc has done about its frame.
//
//go:norace
//go:nocheckptr
func frameAt(pc uintptr) frameState {
	const nop, ret = 0x90, 0xc3
	makeFrame := []byte{0x55, 0x48, 0x89, 0xe5} // PUSHQ BP; MOVQ SP, BP
	f := runtime.FuncForPC(pc)
	if f == nil {
		return frameMade
	}
	next := pc
	for *(*byte)(unsafe.Add(nil, next)) == nop { // between POPQ BP and RET
		next++
	}
	code := unsafe.Slice((*byte)(unsafe.Add(nil, f.Entry())), min(pc-f.Entry(), 64))
	switch {
	case *(*byte)(unsafe.Add(nil, next)) == ret:
		return frameNone
	case bytes.Contains(code, makeFrame):
		return frameMade
	case bytes.HasSuffix(code, makeFrame[:1]) && bytes.Equal(unsafe.Slice((*byte)(unsafe.Add(nil, pc)), 3), makeFrame[1:]):
		return framePushed
	}
	return frameNone
}

// calledBefore returns the function that the call instruction before pc calls, or 0 if there
// is none.
//
//go:norace
//go:nocheckptr
func calledBefore(pc uintptr) uintptr {
	code := (*[5]byte)(unsafe.Add(nil, pc-5))
	if code[0] != 0xe8 {
		return 0
	}
	return pc + uintptr(int32(binary.LittleEndian.Uint32(code[1:])))
}
