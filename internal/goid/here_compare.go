//go:build !go1.26 || go1.27 || !(386 || amd64 || arm64) || spindle_portable || spindle_noasm

package goid

// Here reports whether the caller is the goroutine g.
func Here(g uintptr) bool { return g == Current() }

// Verify does nothing: Here needs no assumption in this build.
func Verify() {}
