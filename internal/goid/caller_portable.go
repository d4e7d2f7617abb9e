//go:build !go1.26 || go1.27 || !(amd64 || arm64) || spindle_portable || spindle_noasm

package goid

import "runtime"

// CallerPC returns the program counter to which the function that calls it returns, as
// runtime.Callers does, for runtime.CallersFrames. The function that calls it must be
// marked noinline.
//
//go:noinline
func CallerPC() uintptr {
	var pc [1]uintptr
	runtime.Callers(3, pc[:])
	return pc[0]
}
