//go:build 386 || amd64 || arm64

package goid

// isPointer says that Current is the address of a g.
const isPointer = true

// Current identifies the calling goroutine for as long as it lives. It is the
// address of the runtime's g: to be compared, never followed.
func Current() uintptr
