//go:build spindle_python

package main

/*
#include "events.h"
*/
import "C"

import "github.com/spindleloop/spindle/inspect"

// SpindleInspect serves the inspector of the process on an address. It writes the address
// that it listens on to text and returns 0, or writes an error and returns -1.
//
//export SpindleInspect
func SpindleInspect(address, text *C.char, capacity C.int) (result C.int) {
	result = -1
	defer guardText(text, capacity)
	s, err := inspect.Serve(C.GoString(address), inspect.Options{})
	if err != nil {
		write(text, capacity, err.Error())
		return -1
	}
	write(text, capacity, s.Addr().String())
	return 0
}
