//go:build go1.26 && !go1.27 && !spindle_portable && !spindle_noasm

package goid

import "unsafe"

// isFrameless reports whether the return address of a function that was stopped at pc is where
// the stack ends. Here it is in a register, and the caller of a function without a frame is
// missing in the stack.
func isFrameless(uintptr) bool { return false }

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
