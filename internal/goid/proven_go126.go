//go:build go1.26 && !go1.27 && !spindle_portable

package goid

// Proven reports that switches between goroutines by the coroutines of package iter, in ways
// that it does not document, have passed all tests with this version of Go. To add a
// version, run .ci/run with it and widen the constraints here, in proven_not.go and in the other
// files of this package.
const Proven = true
