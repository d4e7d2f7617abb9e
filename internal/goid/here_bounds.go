//go:build go1.26 && !go1.27 && (386 || amd64 || arm64) && !spindle_portable && !spindle_noasm

package goid

import (
	"sync"
	"unsafe"
)

// Here reports whether the caller is the goroutine g, without a call: it compares
// the address of a local variable with the bounds of g's stack, which are the first
// words of a g in the Go versions that this file is built for. For g itself the
// answer is always right. For another goroutine it can be wrong while g is given a
// stack or loses it. So Here is for calls that no other goroutine may make, and
// Current for those that any may.
//
//go:nocheckptr
func Here(g uintptr) bool {
	var local struct{} // of no size: it needs no frame
	bounds := (*[2]uintptr)(unsafe.Add(nil, g))
	return uintptr(unsafe.Pointer(&local))-bounds[0] < bounds[1]-bounds[0]
}

// Verify panics if Here does not work with the Go that built the program. Call it
// before the first use of Here.
func Verify() { verify() }

var verify = sync.OnceFunc(func() {
	if !Here(Current()) {
		panic("goid: the runtime of this program keeps stack bounds in an unknown place; build with -tags spindle_portable")
	}
})
