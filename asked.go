package spindle

import (
	"reflect"
	"runtime"
	"strings"
)

// foreign is what is said to who calls op with a context that no task has.
func foreign(op string) string {
	return "spindle: " + asked(op) + " with a context that does not come from a task"
}

// asked is the function of this module that somebody outside has called, and that
// has come to op: it is stream.Dial that people know, and not the LoopOf inside.
func asked(op string) string {
	module := reflect.TypeFor[Scope]().PkgPath()
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		name, ours := strings.CutPrefix(frame.Function, module)
		if !ours || strings.HasSuffix(frame.File, "_test.go") {
			return op
		}
		// ".Sleep", "/stream.(*Dialer).Dial", "/cosync.(*Queue[...]).Get.func1"
		name, _, _ = strings.Cut(name[1:], ".func")
		if exported(name) {
			op = strings.NewReplacer("(*", "", ")", "", "[...]", "").Replace(name)
		}
		if !more {
			return op
		}
	}
}

// exported tells whether a function's name, the last of its parts, is for others.
func exported(name string) bool {
	first := name[strings.LastIndexByte(strings.TrimSuffix(name, "[...]"), '.')+1]
	return 'A' <= first && first <= 'Z'
}
