//go:build !(386 || amd64 || arm64)

package goid

// isPointer says that Current is no address.
const isPointer = false

// Current identifies the calling goroutine for as long as it lives. Here it is
// read off a stack trace, which is slow but right. It is not 1 for anybody, as no
// address is.
func Current() uintptr { return uintptr(Number()) + 1 }

// Here tells whether the caller is the goroutine g.
func Here(g uintptr) bool { return g == Current() }
