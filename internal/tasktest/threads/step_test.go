package threads_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/loop"
)

// stepped is a loop that a case steps, with tasks that wait until they are woken.
type stepped struct {
	l     *loop.Loop
	n     *spindle.Nursery
	wakes []spindle.Waker
	ended int
}

func newStepped() *stepped {
	l, err := loop.New(loop.Options{})
	if err != nil {
		panic(err)
	}
	n, _ := spindle.NurseryOn(context.Background(), l)
	return &stepped{l: l, n: n}
}

// add starts a task that ends when it is woken.
func (s *stepped) add() {
	s.n.GoWith(spindle.TaskOptions{Values: context.Background()}, func(ctx context.Context) error {
		w, err := spindle.NewWaker(ctx)
		if err != nil {
			return err
		}
		s.wakes = append(s.wakes, w)
		if err := w.Park(ctx, "the test", spindle.AbortFunc(func() bool { return true })); err != nil {
			return err
		}
		err = yields(ctx)
		s.ended++
		return err
	})
}

// wake wakes all tasks.
func (s *stepped) wake() {
	for _, w := range s.wakes {
		w.Wake(nil)
	}
	s.wakes = nil
}

// steps steps the loop until nothing is ready.
func (s *stepped) steps() (err error) {
	for range 50 {
		_, e := s.l.RunOnce(0)
		err = errors.Join(err, e)
	}
	return err
}

// end returns the outcome of a case: its failure, or whether all tasks have ended.
func (s *stepped) end(tasks int, failed error) string {
	if failed == nil && s.ended != tasks {
		return fmt.Sprintf("%d of %d tasks ended", s.ended, tasks)
	}
	return happened(failed, nil)
}

// strandedThen returns the outcome of a case in which a step must fail by name before the
// others continue.
func strandedThen(first, then error, s *stepped, tasks int) string {
	if first == nil || !strings.Contains(first.Error(), stranded) {
		return fmt.Sprint("the first steps: ", first)
	}
	if then != nil || s.ended != tasks {
		return fmt.Sprintf("then %d of %d tasks ended, %v", s.ended, tasks, then)
	}
	return first.Error()
}

// inSteps returns a function for the outcome of such a task on a loop that is stepped on a locked thread.
func inSteps(task func(ctx context.Context) error) func() string {
	return func() string {
		runtime.LockOSThread()
		l, err := loop.New(loop.Options{})
		if err != nil {
			return err.Error()
		}
		outcome := "not ended"
		n, end := spindle.NurseryOn(context.Background(), l)
		n.GoWith(spindle.TaskOptions{Values: context.Background()}, func(ctx context.Context) error {
			outcome = goesOn
			return task(ctx)
		})
		failed := (&stepped{l: l}).steps()
		end(func(err error) { outcome = happened(err, nil) })
		failed = errors.Join(failed, (&stepped{l: l}).steps(), l.Close())
		return happened(failed, nil) + ": " + outcome
	}
}

var steppingCases = map[string]threadCase{
	"steps-locked": {inSteps(yields), goesOn},
	"steps-locked-by-poll": {func() string {
		runtime.LockOSThread()
		s := newStepped()
		s.add()
		var failed error
		for range 50 {
			_, err := s.l.Poll(0)
			failed = errors.Join(failed, err)
			for _, p := range s.l.Pending() {
				failed = errors.Join(failed, p.Run())
			}
			s.wake()
		}
		return s.end(1, failed)
	}, goesOn},
	"steps-locked-after-unlocked-tasks-ended": {func() string {
		s := newStepped()
		for range 3 {
			s.add()
		}
		failed := s.steps()
		s.wake()
		failed = errors.Join(failed, s.steps()) // three coroutines are in the pool
		runtime.LockOSThread()
		for range 3 {
			s.add()
		}
		failed = errors.Join(failed, s.steps())
		s.wake()
		return s.end(6, errors.Join(failed, s.steps()))
	}, goesOn},
	"began-unlocked-steps-locked": {func() string {
		s := newStepped()
		s.add()
		failed := s.steps()
		s.wake()
		runtime.LockOSThread()
		first := s.steps()
		runtime.UnlockOSThread()
		return strandedThen(first, errors.Join(failed, s.steps()), s, 1)
	}, stranded},
	"began-unlocked-runs-between-locked": {func() string {
		s := newStepped()
		s.add()
		failed := s.steps()
		runtime.LockOSThread()
		s.add()
		failed = errors.Join(failed, s.steps())
		s.wake() // both: the locked one hands over to the other
		first := s.steps()
		runtime.UnlockOSThread()
		return strandedThen(first, errors.Join(failed, s.steps()), s, 2)
	}, stranded},
	"began-locked-steps-unlocked": {func() string {
		s := newStepped()
		runtime.LockOSThread()
		s.add()
		failed := s.steps()
		s.wake()
		// Only a thread that is still locked stays the same one.
		var first error
		done := make(chan struct{})
		go func() { first = s.steps(); close(done) }()
		<-done
		return strandedThen(first, errors.Join(failed, s.steps()), s, 1)
	}, stranded},
	"began-locked-steps-locked-elsewhere": {func() string {
		s := newStepped()
		runtime.LockOSThread()
		s.add()
		failed := s.steps()
		s.wake()
		var first error
		done := make(chan struct{})
		go func() { runtime.LockOSThread(); first = s.steps(); close(done) }()
		<-done
		return strandedThen(first, errors.Join(failed, s.steps()), s, 1)
	}, stranded},
	"began-locked-steps-locked-twice": {func() string {
		s := newStepped()
		runtime.LockOSThread()
		s.add()
		failed := s.steps()
		s.wake()
		runtime.LockOSThread()
		first := s.steps()
		runtime.UnlockOSThread()
		return strandedThen(first, errors.Join(failed, s.steps()), s, 1)
	}, stranded},
	"began-locked-then-run": {func() string {
		s := newStepped()
		runtime.LockOSThread()
		s.add()
		failed := s.steps()
		s.wake()
		first := s.l.Run(context.Background())
		return strandedThen(first, errors.Join(failed, s.steps()), s, 1)
	}, stranded},
	"poll-unlocked-pending-locked": {func() string {
		s := newStepped()
		s.add()
		failed := s.steps()
		s.wake()
		_, err := s.l.Poll(0)
		pending := s.l.Pending()
		runtime.LockOSThread()
		first := pending[0].Run()
		runtime.UnlockOSThread()
		return strandedThen(first, errors.Join(failed, err, s.steps()), s, 1)
	}, stranded},
	"steps-locked-task-locks-and-waits": {inSteps(func(ctx context.Context) error {
		runtime.LockOSThread()
		return spindle.Yield(ctx)
	}), heldTask},
	"steps-locked-task-locks-and-ends": {inSteps(func(ctx context.Context) error {
		runtime.LockOSThread()
		return nil
	}), heldTask},
	"steps-locked-task-unlocks-and-waits": {inSteps(func(ctx context.Context) error {
		runtime.UnlockOSThread()
		return spindle.Yield(ctx)
	}), heldTask},
	mayEnd: {inSteps(func(ctx context.Context) error {
		was := goid.LockOf(goid.Current())
		runtime.UnlockOSThread()
		for !goid.LockOf(goid.Current()).Locked() { // until it is on another thread
			other := make(chan struct{})
			go func() { runtime.LockOSThread(); runtime.Gosched(); runtime.UnlockOSThread(); close(other) }()
			<-other
			runtime.LockOSThread()
			if goid.LockOf(goid.Current()) == was {
				runtime.UnlockOSThread()
			}
		}
		return spindle.Yield(ctx)
	}), heldTask},
	"steps-locked-callback-locks": {func() string {
		runtime.LockOSThread()
		s := newStepped()
		s.add()
		failed := s.steps()
		s.l.CallSoon(runtime.LockOSThread)
		s.wake()
		first := s.steps()
		if s.ended != 1 {
			return "the task has not ended"
		}
		return happened(errors.Join(failed, first), nil)
	}, heldByFn},
	"task-steps-another-loop-locked": {func() string {
		inner := newStepped()
		return inTask(func(ctx context.Context) error {
			inner.add()
			runtime.LockOSThread()
			failed := inner.steps()
			runtime.UnlockOSThread()
			inner.wake()
			return errors.Join(failed, inner.steps())
		})()
	}, stranded},
}

var closingCases = map[string]threadCase{
	"unlocked-tasks-end-then-locked-close": {func() string {
		s := newStepped()
		s.add()
		failed := s.steps()
		s.wake()
		failed = errors.Join(failed, s.steps())
		runtime.LockOSThread()
		return s.end(1, errors.Join(failed, s.l.Close()))
	}, goesOn},
	"locked-tasks-end-then-unlocked-close": {func() string {
		s := newStepped()
		done := make(chan error)
		go func() {
			runtime.LockOSThread()
			s.add()
			failed := s.steps()
			s.wake()
			done <- errors.Join(failed, s.steps())
			select {} // the thread stays
		}()
		failed := <-done
		return s.end(1, errors.Join(failed, s.l.Close()))
	}, goesOn},
	"unlocked-run-ends-in-locked-steps": {func() string {
		l, err := loop.New(loop.Options{})
		if err != nil {
			return err.Error()
		}
		s := &stepped{l: l}
		outcome := "not ended"
		spindle.RunOn(context.Background(), l, func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(yields)
				return nil
			})
		}, func(err error) { outcome = happened(err, nil) })
		for range 12 {
			l.RunOnce(0)
		}
		runtime.LockOSThread()
		first := s.steps()
		runtime.UnlockOSThread()
		if first != nil && !strings.Contains(first.Error(), stranded) {
			return first.Error()
		}
		return happened(errors.Join(s.steps(), l.Close()), nil) + ": " + outcome
	}, goesOn + ": " + goesOn},
}
