package spindle

import (
	"errors"
	"runtime"
	"slices"

	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/loop"
)

// LoopClosing ends the runs that are still there when the loop is closed: those of
// RunOn and NurseryOn on a loop that was stopped. Their tasks are cancelled and run
// until none is ready. Those that still wait are made to exit, and are reported. Then
// the idle coroutines end.
func (s *sched) LoopClosing() error {
	for _, r := range slices.Clone(s.runs) {
		r.cancel(loop.ErrClosed)
	}
	s.runOut()
	var errs []error
	if late := s.exitRemaining(); len(late) > 0 {
		errs = append(errs, madeToExit(late))
	}
	for _, r := range s.runs {
		if r.root.done == nil { // the end of NurseryOn was not called: no other code gets the result
			r.root.fault = nil // it is among the errors too
			errs = append(errs, r.root.result())
			r.root.closed = true
			r.reportUnawaited()
		}
	}
	s.endIdle()
	return errors.Join(errs...)
}

// tasks returns the tasks of all runs that have not finished, the oldest first in each
// run.
func (s *sched) tasks() (tasks []*Task) {
	for _, r := range s.runs {
		tasks = append(tasks, r.tasks()...)
	}
	return tasks
}

// maxRounds is how often a task may continue while the loop is closed. It is enough for
// cleaning up that waits for nothing but other tasks.
const maxRounds = 256

// runOut runs the tasks that are ready, and those that they make ready, until there
// is none.
func (s *sched) runOut() {
	for range maxRounds {
		s.l.Internal().DrainAtClose() // can wake tasks
		var due []*coro.Coro
		for _, t := range s.tasks() {
			if t.co != nil && t.co.State() == coro.Ready {
				due = append(due, t.co)
			}
		}
		if s.core.BeginFresh()+len(due) == 0 {
			return
		}
		s.core.RunReady(due...)
	}
}

// exitRemaining makes the remaining tasks exit, and returns their names. A wait that can be
// aborted fails, and the next one ends the task. Otherwise the task exits where it
// waits, but not before the tasks of its nurseries have ended: a task cannot be
// found any more when its nursery is gone.
func (s *sched) exitRemaining() (late []string) {
	left := s.tasks()
	for _, t := range left {
		late = append(late, t.Name())
		t.mustExit = true
		t.nursery.liftLimit()
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
			if t.waiting() && !owners[t] {
				exits++
				t.exit()
				s.core.RunReady(t.co)
			}
		}
	}
	return late
}

// exit makes a task exit where it waits, whatever it waits for.
func (t *Task) exit() {
	t.mustExit = true
	t.co.SetCheck(true)
	t.co.AfterWait(runtime.Goexit)
	t.wake(nil)
}
