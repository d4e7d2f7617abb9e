package goid_test

import (
	"runtime"
	"testing"

	"github.com/spindleloop/spindle/internal/goid"
)

// where returns the caller's program counter, from a frame with some size.
//
//go:noinline
func where(n int) (pc uintptr, sum int) {
	var frame [32]int
	pc = goid.CallerPC()
	for i := range frame {
		frame[i] = n
		sum += frame[i]
	}
	return pc, sum
}

//go:noinline
func whereGeneric[T any](T) uintptr {
	pc := goid.CallerPC()
	runtime.KeepAlive(pc)
	return pc
}

func TestCallerPC(t *testing.T) {
	line := func(pc uintptr) (string, int) {
		frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
		return frame.File, frame.Line
	}
	check := func(name string, pc uintptr) {
		t.Helper()
		_, file, want, _ := runtime.Caller(1)
		if gotFile, got := line(pc); gotFile != file || got != want {
			t.Errorf("%s: called from %s:%d, want %s:%d", name, gotFile, got, file, want)
		}
	}
	pc, _ := where(1)
	if _, got := line(pc); got == 0 {
		t.Error("the program counter has no line")
	}
	check("generic", whereGeneric(1))
	check("generic, pointer", whereGeneric(t))
	grow(8, func() { check("deep", whereGeneric("")) })
	next := make(chan struct{})
	go func() {
		defer close(next)
		check("on a goroutine", whereGeneric(1.5))
	}()
	<-next
}
