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

// traced is what is known of tasks that profilers are to see. Loop goroutine
// only.
type traced map[*Task]origin

// origin is where a task comes from.
type origin struct {
	function string     // where its function is
	callers  [6]uintptr // who started it, innermost first
}

// add takes note of where t is started, and has its function run under its label
// and in a region of its own. The label is made here: made in the task it would
// make the task's stack twice as large.
func (tr traced) add(t *Task) {
	var from origin
	t.name, from.function = t.Name(), t.place()
	runtime.Callers(3, from.callers[:])
	tr[t] = from
	label := pprof.WithLabels(context.Background(), pprof.Labels("task", t.name))
	fn := t.fn
	t.fn = func(ctx context.Context) error {
		pprof.SetGoroutineLabels(label)
		defer pprof.SetGoroutineLabels(context.Background())
		defer trace.StartRegion(label, t.name).End()
		return fn(ctx)
	}
}

// started is where t was started: in the first function outside of this package.
func (tr traced) started(t *Task) string {
	from, ok := tr[t]
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
