//go:build go1.26 && !go1.27 && !spindle_portable

package coro

// directProven reports that direct switching has passed all tests with this version
// of Go. To add a version, run .ci/run with it and widen the constraints here, in
// direct_unproven.go and in internal/goid.
const directProven = true
