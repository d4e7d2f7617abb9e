//go:build spindle_python

package main

/*
#include "events.h"
*/
import "C"

import (
	"fmt"
	"runtime/debug"
	"sync"
	"unsafe"
)

// A panic that leaves an exported function ends the process, with Python and all that it has not
// written. So every exported function defers guard or guardText, and Python raises a RuntimeError.

var failure struct {
	mu   sync.Mutex
	text string
}

// guard is deferred by an exported function. After a panic it makes the function return
// SPINDLE_PANIC, and keeps the text for SpindleFailure.
func guard(result *C.int) {
	if v := recover(); v != nil {
		*result = fail(v, debug.Stack())
	}
}

// fail keeps the text of a panic, and returns SPINDLE_PANIC.
func fail(v any, stack []byte) C.int {
	failure.mu.Lock()
	defer failure.mu.Unlock()
	failure.text = describe(v, stack)
	return C.SPINDLE_PANIC
}

// guardText is guard for functions that write an error to text.
func guardText(text *C.char, capacity C.int) {
	if v := recover(); v != nil {
		write(text, capacity, describe(v, debug.Stack()))
	}
}

func describe(v any, stack []byte) string {
	return fmt.Sprintf("spindle: panic in Go: %v\n%s", v, stack)
}

// write stores s in text as a string of C, as much of it as there is space for.
func write(text *C.char, capacity C.int, s string) {
	if text == nil || capacity <= 0 {
		return
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(text)), int(capacity))
	b[copy(b[:len(b)-1], s)] = 0
}

// SpindleFailure writes the text of the last panic that guard has met.
//
//export SpindleFailure
func SpindleFailure(text *C.char, capacity C.int) {
	defer guardText(nil, 0)
	failure.mu.Lock()
	defer failure.mu.Unlock()
	write(text, capacity, failure.text)
}
