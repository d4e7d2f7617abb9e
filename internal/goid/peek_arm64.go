//go:build go1.26 && !go1.27 && !spindle_portable && !spindle_noasm

package goid

import (
	"runtime"
	"unsafe"
)

// savedLink is where asyncPreempt finds the link register of the function that it has stopped, from
// its frame pointer.
const savedLink = 248

// skippedCaller returns where the caller of a function that a signal has stopped continues, if
// frame pointers do not lead there, and 0 if they do. The function of the signal has the frame
// at bp.
//
// The link register has that address while the function has no frame. Later it has that of the
// last call that the function made, which is in the function itself.
//
//go:norace
//go:nocheckptr
func skippedCaller(bp uintptr, frame [2]uintptr, within func(uintptr) bool) uintptr {
	if !within(bp + savedLink) {
		return 0
	}
	link := *(*uintptr)(unsafe.Add(nil, bp+savedLink))
	caller, stopped := runtime.FuncForPC(link-1), runtime.FuncForPC(frame[1])
	if caller == nil || stopped == nil || caller.Entry() == stopped.Entry() {
		return 0
	}
	if within(frame[0]) && *(*uintptr)(unsafe.Add(nil, frame[0]+8)) == link {
		return 0
	}
	return link
}

// calledBefore returns the function that the call instruction before pc calls, or 0 if there
// is none.
//
//go:norace
//go:nocheckptr
func calledBefore(pc uintptr) uintptr {
	code := *(*uint32)(unsafe.Add(nil, pc-4))
	if code>>26 != 0x25 { // BL
		return 0
	}
	return pc - 4 + uintptr(int32(code<<6)>>6*4)
}
