//go:build !(386 || amd64 || arm64) || spindle_noasm

package goid

// isPointer reports that Current is not an address.
const isPointer = false

// Current identifies the calling goroutine for as long as it lives. Here it is
// read from a stack trace, which is slow but uses only documented behaviour. It is
// never 1, as no address is.
func Current() uintptr { return uintptr(Number()) + 1 }
