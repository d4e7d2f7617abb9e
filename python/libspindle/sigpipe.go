//go:build spindle_python

package main

import "C"

import (
	"os/signal"
	"syscall"
)

// SpindleIgnoreSIGPIPE makes the process ignore SIGPIPE, as Python does. Otherwise Go ends it when the
// reader of standard output or standard error is gone.
//
//export SpindleIgnoreSIGPIPE
func SpindleIgnoreSIGPIPE() {
	defer guardText(nil, 0)
	signal.Ignore(syscall.SIGPIPE)
}
