//go:build spindle_python

package main

/*
#include "events.h"
*/
import "C"

import (
	"unsafe"

	"github.com/spindleloop/spindle/inspect"
)

// SpindleInspect serves the inspector of the process on an address. It writes the address
// that it listens on to text and returns 0, or writes an error and returns -1.
//
//export SpindleInspect
func SpindleInspect(address, text *C.char, capacity C.int) C.int {
	s, err := inspect.Serve(C.GoString(address), inspect.Options{})
	b := unsafe.Slice((*byte)(unsafe.Pointer(text)), int(capacity))
	if err != nil {
		b[copy(b[:len(b)-1], err.Error())] = 0
		return -1
	}
	b[copy(b[:len(b)-1], s.Addr().String())] = 0
	return 0
}
