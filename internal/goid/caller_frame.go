//go:build go1.26 && !go1.27 && (amd64 || arm64) && !spindle_portable && !spindle_noasm

package goid

// CallerPC returns the program counter to which the function that calls it returns, as
// runtime.Callers would, for runtime.CallersFrames. The function that calls it must be
// marked noinline. It reads the frame pointer, which every function with a frame keeps
// on these architectures: two instructions, where runtime.Callers takes a tenth of a
// microsecond.
func CallerPC() uintptr
