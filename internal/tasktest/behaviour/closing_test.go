package behaviour_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// TestCloseEndsWaitingTasks of a run on a loop that was stopped. Their waits are cancelled,
// their deferred calls run, and done is called. TestMain checks that no coroutine is left.
func TestCloseEndsWaitingTasks(t *testing.T) {
	for name, wait := range map[string]func(context.Context) error{
		"Sleep": func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) },
		"Future": func(ctx context.Context) error {
			_, err := spindle.NewFuture[int](ctx).Await(ctx)
			return err
		},
		"nursery": func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				for range 3 {
					n.Go(forever)
				}
				return nil
			})
		},
		"cleaning up": func(ctx context.Context) error {
			err := forever(ctx)
			return errors.Join(err, spindle.Grace(ctx, time.Second, func(ctx context.Context) error { return spindle.Yield(ctx) }))
		},
		"ready": func(ctx context.Context) error {
			n := spindle.RootNursery(ctx)
			n.Go(forever)
			spindle.LoopOf(ctx).Stop()
			return spindle.Yield(ctx)
		},
	} {
		for _, how := range []string{"stepped", "stepped on a locked thread", "closed on a locked thread"} {
			t.Run(name+" "+how, func(t *testing.T) {
				if how != "stepped" {
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
				}
				l := openLoop(t)
				deferred, told := 0, []error{}
				for range 2 {
					spindle.RunOn(t.Context(), l, func(ctx context.Context) error {
						defer func() { deferred++ }()
						return wait(ctx)
					}, func(err error) { told = append(told, err) })
				}
				if how == "closed on a locked thread" {
					if err := l.Run(stopped(t, l)); err != nil && err != context.Canceled {
						t.Fatal(err)
					}
				} else {
					turn(t, l)
				}
				if err := l.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
				if deferred != 2 || len(told) != 2 || name != "ready" && !errors.Is(told[0], loop.ErrClosed) {
					t.Errorf("%d deferred calls ran, told %v", deferred, told)
				}
			})
		}
	}
}

// stopped returns a context that ends when nothing is ready on l.
func stopped(t *testing.T, l *loop.Loop) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	l.CallLater(time.Millisecond, cancel)
	return ctx
}

// TestCloseEndsTasksThatHaveNotBegun: they begin in a cancelled scope, as in a nursery.
func TestCloseEndsTasksThatHaveNotBegun(t *testing.T) {
	l := openLoop(t)
	var told error
	begun := 0
	spindle.RunOn(t.Context(), l, func(ctx context.Context) error {
		begun++
		spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
			begun++
			return forever(ctx)
		})
		return forever(ctx)
	}, func(err error) { told = err })
	if err := l.Close(); err != nil || begun != 2 || !errors.Is(told, loop.ErrClosed) {
		t.Errorf("Close: %v; %d begun, told %v", err, begun, told)
	}
}

// TestCloseForcesTasks to exit that ignore cancellation, or that wait for something that
// cannot be cancelled. Their deferred calls run, and Close names them.
func TestCloseForcesTasks(t *testing.T) {
	begun, release := make(chan bool, 1), make(chan bool)
	defer close(release)
	for name, wait := range map[string]func(context.Context) error{
		"blocking": func(ctx context.Context) error {
			_, err := spindle.Blocking(ctx, func() (int, error) { begun <- true; <-release; return 0, nil })
			return err
		},
		"shielded": func(ctx context.Context) error { return spindle.Shield(ctx, forever) },
		"heedless": func(ctx context.Context) error {
			for {
				spindle.Sleep(ctx, time.Hour)
			}
		},
		"busy": func(ctx context.Context) error {
			return spindle.Shield(ctx, func(ctx context.Context) error {
				for {
					if err := spindle.Yield(ctx); err != nil {
						return err
					}
				}
			})
		},
		"parent": func(ctx context.Context) error {
			return spindle.Shield(ctx, func(ctx context.Context) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.GoWith(spindle.TaskOptions{Name: "child"}, forever)
					return nil
				})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := openLoop(t)
			n, _ := spindle.NurseryOn(t.Context(), l)
			deferred := false
			n.GoWith(spindle.TaskOptions{Name: name}, func(ctx context.Context) error {
				defer func() { deferred = true }()
				return wait(ctx)
			})
			for range 3 {
				if _, err := l.RunOnce(0); err != nil {
					t.Fatal(err)
				}
			}
			if name == "blocking" {
				<-begun // else it can be cancelled
			}
			err := l.Close()
			if !slices.Contains(stragglers(err), name) || !deferred {
				t.Errorf("Close: %v, deferred %v", err, deferred)
			}
		})
	}
}

// TestCloseReportsWhatTasksFailWith if no other call returns it.
func TestCloseReportsWhatTasksFailWith(t *testing.T) {
	boom := errors.New("boom")
	l := openLoop(t)
	n, _ := spindle.NurseryOn(t.Context(), l)
	n.Go(forever)
	n.Go(func(ctx context.Context) error {
		forever(ctx)
		return boom
	})
	turn(t, l)
	if err := l.Close(); err != boom {
		if !errors.Is(err, boom) || errors.Is(err, context.Canceled) {
			t.Errorf("Close: %v", err)
		}
	}
}

// TestCloseRunsDone of a run that ended in the last turn.
func TestCloseRunsDone(t *testing.T) {
	l := openLoop(t)
	told := false
	spindle.RunOn(t.Context(), l, func(ctx context.Context) error {
		l.Stop()
		return nil
	}, func(err error) { told = err == nil })
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil || !told {
		t.Errorf("Close: %v, told %v", err, told)
	}
}

// TestCloseForcesNestedTasks: a task ends after the tasks of its nurseries, at any depth,
// and no task remains.
func TestCloseForcesNestedTasks(t *testing.T) {
	l := openLoop(t)
	begun, release := make(chan bool), make(chan bool)
	defer close(release)
	ended := []int{}
	var task func(depth int) func(context.Context) error
	task = func(depth int) func(context.Context) error {
		return func(ctx context.Context) error {
			defer func() { ended = append(ended, depth) }()
			if depth == 0 {
				_, err := spindle.Blocking(ctx, func() (int, error) { begun <- true; <-release; return 0, nil })
				return err
			}
			return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
				n.Go(task(depth - 1))
				return nil
			})
		}
	}
	spindle.RunOn(t.Context(), l, task(4), nil)
	for range 10 {
		if _, err := l.RunOnce(0); err != nil {
			t.Fatal(err)
		}
	}
	<-begun
	if err := l.Close(); len(stragglers(err)) != 5 {
		t.Errorf("Close returned %v", err)
	}
	if want := []int{0, 1, 2, 3, 4}; !slices.Equal(ended, want) {
		t.Errorf("the tasks ended in the order %v, want %v", ended, want)
	}
}

// TestGoexitDuringClose: the loop is closed although a callback ends the goroutine, and the
// other callbacks are called.
func TestGoexitDuringClose(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	called := 0
	for range 3 {
		spindle.RunOn(t.Context(), l, forever, func(error) { called++; runtime.Goexit() })
	}
	l.RunOnce(0)
	if !exits(func() { l.Close() }) {
		t.Error("Close has returned")
	}
	if err := l.Close(); err != loop.ErrClosed || called != 3 {
		t.Errorf("%d were called; Close again: %v", called, err)
	}
}
