package spindle

import (
	"errors"
	"runtime"
	"slices"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/loop"
)

// LoopClosing ends the runs that are still there when the loop is closed: those of
// RunOn and NurseryOn on a loop that was stopped. Their tasks are cancelled and run
// until none is ready; those that still wait are made to exit, and are reported. Then
// the coroutines in the pool end.
func (s *sched) LoopClosing() error {
	for _, r := range slices.Clone(s.runs) {
		r.cancel(loop.ErrClosed)
	}
	s.runOut()
	var errs []error
	if late := s.expel(); len(late) > 0 {
		errs = append(errs, &StragglerError{late})
	}
	for _, r := range s.runs {
		if r.root.done == nil { // the end of NurseryOn was not called: no other code is told
			r.root.fault = nil // it is among the errors too
			errs = append(errs, r.root.result())
			r.reportAll()
		}
	}
	s.dismissAll()
	return errors.Join(errs...)
}

// tasks are those of all runs that have not finished, the oldest first in each run.
func (s *sched) tasks() (tasks []*Task) {
	for _, r := range s.runs {
		tasks = append(tasks, r.tasks()...)
	}
	return tasks
}

// mostRounds is how often a task may go on while the loop is closed. It is enough for
// cleaning up that waits for nothing but other tasks.
const mostRounds = 256

// runOut runs the tasks that are ready, and those that they make ready, until there
// is none.
func (s *sched) runOut() {
	for range mostRounds {
		s.l.RunOwed() // can wake tasks
		var due []*coro
		for _, t := range s.tasks() {
			if t.state == ready {
				due = append(due, t.co)
			}
		}
		if s.beginFresh()+len(due) == 0 {
			return
		}
		s.visitAll(due...)
	}
}

// beginFresh begins the tasks that have not begun, and returns how many there were.
func (s *sched) beginFresh() (n int) {
	s.use(goid.LockOf(goid.Current()))
	for i := range s.lanes {
		lane := &s.lanes[i]
		for range lane.tasks.len() {
			n++
			s.visit(s.begin(lane))
		}
	}
	return n
}

// expel makes the tasks exit that are left, and returns their names. A wait that can
// be aborted fails, and the next one ends the task. Otherwise the task exits where it
// waits, but not before the tasks of its nurseries have ended: a task whose nursery is
// gone cannot be found any more.
func (s *sched) expel() (late []string) {
	left := s.tasks()
	for _, t := range left {
		late = append(late, t.Name())
		t.doomed, t.budget = true, 0
		t.cancelWait(t.scope.run.root.scope.canceled)
	}
	for exits := -1; exits != 0; {
		s.runOut()
		exits = 0
		left = s.tasks()
		owners := make(map[*Task]bool)
		for _, t := range left {
			owners[t.nursery.owner] = true
		}
		for _, t := range left {
			if t.state == waiting && !owners[t] {
				exits++
				t.exit()
				s.visitAll(t.co)
			}
		}
	}
	return late
}

// exit has a task exit where it waits, whatever it waits for.
func (t *Task) exit() {
	t.doomed = true
	r := t.co.seldom()
	unbind := r.unbind
	r.unbind = func() { // called on the task's coroutine when the wait has ended
		if unbind != nil {
			unbind()
		}
		runtime.Goexit()
	}
	t.wake(nil)
}

// visitAll has coroutines go on whose tasks are ready, one after the other. A coroutine
// goes on only under the thread lock that it was made under: here if that is the
// caller's, elsewhere if it was made under none, and otherwise not at all.
func (s *sched) visitAll(all ...*coro) {
	here := goid.LockOf(goid.Current())
	visit := func(under goid.ThreadLock) {
		s.use(under)
		for _, c := range all {
			if c.seat.lock == s.threads.now && c.task != nil && c.task.state == ready {
				s.visit(c)
			}
		}
	}
	visit(here)
	if here.Locked() && slices.ContainsFunc(all, func(c *coro) bool { return c.seat.lock == 0 }) {
		aside(func() { visit(goid.ThreadLock{}) })
		s.use(here)
	}
}
