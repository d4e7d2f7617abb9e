//go:build spindle_python

package main

import "C"

import (
	"runtime"

	"github.com/spindleloop/spindle/internal/version"
)

// SpindleVersion writes the version of the library, a space, and the version of Go that it was
// built with.
//
//export SpindleVersion
func SpindleVersion(text *C.char, capacity C.int) {
	defer guardText(nil, 0)
	write(text, capacity, version.Number+" "+runtime.Version())
}
