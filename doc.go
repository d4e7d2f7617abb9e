// Package spindle is the root of the Spindle event loop for Go.
//
// The loop itself is package loop: callbacks, timers, file descriptors, one
// goroutine. This package will hold the tasks that run on it.
package spindle
