//go:build !go1.26 || go1.27 || spindle_portable

package coro

// directProven reports that direct switching has not been tested with this version
// of Go, or that the build asks for portable switching.
const directProven = false
