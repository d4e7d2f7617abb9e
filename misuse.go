package spindle

import (
	"reflect"
	"runtime"
	"strings"

	"github.com/spindleloop/spindle/internal/goid"
)

// notInTask returns the panic message for op when its context does not belong to a task.
func notInTask(op string) string {
	return "spindle: " + calledName(op) + " with a context that does not come from a task;" +
		" pass on the ctx of the task that calls it, or call it in spindle.Run"
}

// calledName returns the name of the exported function of the library through which the
// user's code has reached op: the user has called stream.Dial, not the LoopOf inside it.
func calledName(op string) string {
	module := reflect.TypeFor[Scope]().PkgPath()
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		if !goid.OfLibrary(frame.Function) {
			return op
		}
		// ".Sleep", "/stream.(*Dialer).Dial", "/cosync.(*Queue[...]).Get.func1"
		name, _, _ := strings.Cut(frame.Function[len(module)+1:], ".func")
		if isExported(name) {
			op = strings.NewReplacer("(*", "", ")", "", "[...]", "").Replace(name)
		}
		if !more {
			return op
		}
	}
}

// isExported reports whether users can call the function of this name: its last part and
// its receiver are exported, and its package is not internal.
func isExported(name string) bool {
	upper := func(c byte) bool { return 'A' <= c && c <= 'Z' }
	if _, receiver, ok := strings.Cut(name, "(*"); ok && !upper(receiver[0]) {
		return false
	}
	last := strings.LastIndexByte(strings.TrimSuffix(name, "[...]"), '.')
	return upper(name[last+1]) && !strings.HasPrefix(name, "internal/")
}
