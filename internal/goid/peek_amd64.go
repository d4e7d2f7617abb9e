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
	if !isFrameless(frame[1]) || !within(bp+16) {
		return 0
	}
	return *(*uintptr)(unsafe.Add(nil, bp+16))
}

// isFrameless reports whether a function that was stopped at pc has no frame, or not yet:
// the instructions that make one are not among those before pc. The return address is then
// where the stack ends.
//
//go:norace
//go:nocheckptr
func isFrameless(pc uintptr) bool {
	f := runtime.FuncForPC(pc)
	if f == nil {
		return false
	}
	makeFrame := []byte{0x55, 0x48, 0x89, 0xe5} // PUSHQ BP; MOVQ SP, BP
	code := unsafe.Slice((*byte)(unsafe.Add(nil, f.Entry())), min(pc-f.Entry(), 64))
	return !bytes.Contains(code, makeFrame)
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
