//go:build amd64 || arm64

package goid

// Current identifies the calling goroutine for as long as it lives. It is the
// address of the runtime's g: to be compared, never followed.
func Current() uintptr
