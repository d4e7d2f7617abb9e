package spindle

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strings"
)

// origins has the origin of each task of a run with Options.Trace. Loop goroutine only.
type origins map[*Task]origin

// origin is where a task was started.
type origin struct {
	function string     // where its function is
	code     uintptr    // of its function
	callers  [6]uintptr // of the code that started it, innermost first
}

// add records where t is started, and makes its function run with its label and in a
// region of its own. The label is made here, because making it in the task would double
// the size of the task's stack.
func (o origins) add(t *Task) {
	var from origin
	t.name, from.function, from.code = t.Name(), t.place(), t.codeOf()
	runtime.Callers(3, from.callers[:])
	o[t] = from
	label := pprof.WithLabels(context.Background(), pprof.Labels("task", t.name))
	fn := t.fn
	t.fn = func(ctx context.Context) error {
		pprof.SetGoroutineLabels(label)
		defer pprof.SetGoroutineLabels(context.Background())
		defer trace.StartRegion(label, t.name).End()
		return fn(ctx)
	}
}

// started returns where t was started: the line in the innermost function outside of this
// package.
func (o origins) started(t *Task) string {
	from, ok := o[t]
	if !ok {
		return ""
	}
	for frames := runtime.CallersFrames(from.callers[:]); ; {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "github.com/spindleloop/spindle.") {
			return fmt.Sprintf("%s:%d", path.Base(frame.File), frame.Line)
		}
		if !more {
			return ""
		}
	}
}
