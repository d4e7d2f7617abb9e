//go:build (386 || amd64 || arm64) && !spindle_noasm

package goid

// isPointer reports that Current is the address of a g.
const isPointer = true

// Current identifies the calling goroutine for as long as it lives. It is the
// address of the runtime's g.
func Current() uintptr
