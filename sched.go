package spindle

import (
	"slices"

	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/perloop"
	"github.com/spindleloop/spindle/loop"
)

// sched is the tasks of one loop. Loop goroutine only.
type sched struct {
	l       *loop.Loop
	core    coro.Scheduler
	spare   []*Task // ended tasks, for reuse
	started uint64  // tasks so far
	runs    []*run  // under way on the loop
	traits  traits
	walk    *walk   // in progress; nil for most of the time
	walked  uint16  // the number of the last walk
	record  *record // nil unless an inspector is attached
}

// maxSpare is the number of ended tasks that are kept for reuse.
const maxSpare = 4096

var scheds perloop.Values[sched]

// schedOf returns the scheduler of a loop. Runs that share a loop share its scheduler.
func schedOf(l *loop.Loop) *sched {
	if s := scheds.Of(l); s != nil {
		return s
	}
	s := &sched{l: l}
	s.traits = newTraits()
	s.core.Init(l)
	l.Internal().DescribeRunning(s.peek)
	scheds.Set(l, s)
	return s
}

// running returns the task that is executing, nil if that is a callback.
func (s *sched) running() *Task {
	c := s.core.Running()
	if c == nil {
		return nil
	}
	return taskOn(c)
}

// only panics unless the caller may use what belongs to the loop.
func (s *sched) only(op string) {
	if s.l.Internal().Foreign() {
		panic("spindle: " + op + " called from a goroutine that is not the loop's; use CallOn")
	}
}

// task returns a new task, or a spare one.
func (s *sched) task() *Task {
	last := len(s.spare) - 1
	if last < 0 {
		return &Task{}
	}
	t := s.spare[last]
	s.spare = s.spare[:last]
	return t
}

// recycle takes back a task that has ended, unless other code may keep it.
//
//go:noinline
func (s *sched) recycle(t *Task) {
	if t.known || len(s.spare) >= maxSpare {
		t.co = nil
		return
	}
	extra := t.extra
	if extra != nil && extra.waits != nil {
		extra.waits.awaits = nil // of a task that was made to exit in its wait
	}
	*t = Task{}
	t.extra = extra
	s.spare = append(s.spare, t)
}

// leave ends a run. With the last one the idle coroutines end.
func (s *sched) leave(r *run) {
	s.runs = slices.DeleteFunc(s.runs, func(o *run) bool { return o == r })
	if s.traits.run == r {
		s.traits.run = nil // the loop may be used for long
	}
	if len(s.runs) == 0 {
		s.endIdle()
	}
}

// endIdle gives up what is kept for reuse.
func (s *sched) endIdle() {
	s.core.EndIdle()
	s.spare = nil
}
