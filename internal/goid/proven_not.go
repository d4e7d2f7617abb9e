//go:build !go1.26 || go1.27 || spindle_portable

package goid

// Proven reports that switches between goroutines by the coroutines of package iter, in ways
// that it does not document, have not been tested with this version of Go, or that the build
// asks for portable switching.
const Proven = false
