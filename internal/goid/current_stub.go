//go:build 386 || amd64 || arm64

package goid

import "unsafe"

// isPointer says that Current is the address of a g.
const isPointer = true

// Current identifies the calling goroutine for as long as it lives. It is the
// address of the runtime's g.
func Current() uintptr

// Here tells whether the caller is the goroutine g, without a call: by whether a
// variable of the caller's lies on the stack of g. A g begins with the bounds of its
// stack, before the limit that every function Go compiles looks up when it is entered.
// For g itself the answer is always right. For another goroutine it can be wrong while
// g is given a stack, or another one, or loses it: so it is for calls that no other may
// make, and Current is for those that any may.
//
//go:nocheckptr
func Here(g uintptr) bool {
	var local struct{} // of no size: it needs no frame
	bounds := (*[2]uintptr)(unsafe.Add(nil, g))
	return uintptr(unsafe.Pointer(&local))-bounds[0] < bounds[1]-bounds[0]
}

func init() {
	if !Here(Current()) {
		panic("goid: this version of Go keeps goroutines or their variables in an unknown way")
	}
}
