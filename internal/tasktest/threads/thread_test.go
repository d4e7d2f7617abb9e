package threads_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// TestLockedThreadIsNamed: a task that is locked to its thread can neither wait nor end, nor
// wait for the tasks of its nursery. It fails by name, and the other tasks do not.
func TestLockedThreadIsNamed(t *testing.T) {
	for name, task := range map[string]func(context.Context) error{
		"waits": func(ctx context.Context) error {
			runtime.LockOSThread()
			runtime.LockOSThread()
			return spindle.Yield(ctx)
		},
		"parks": func(ctx context.Context) error {
			runtime.LockOSThread()
			w, err := spindle.NewWaker(ctx)
			if err != nil {
				return err
			}
			return w.Park(ctx, "nothing", spindle.AbortFunc(func() bool { return true }))
		},
		"ends": func(context.Context) error {
			runtime.LockOSThread()
			return nil
		},
		"joins": func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
				n.Go(forever)
				runtime.LockOSThread()
				return nil
			})
		},
		"begins another at once": func(ctx context.Context) error {
			runtime.LockOSThread()
			spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Eager: true}, forever)
			return nil
		},
		"spends": func(ctx context.Context) error {
			runtime.LockOSThread()
			for range 1000 {
				if err := spindle.Checkpoint(ctx); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				p, _ := recover().(*spindle.PanicError)
				if p == nil || !strings.Contains(p.Error(), "runtime.LockOSThread") {
					t.Errorf("panic %v", p)
				}
			}()
			err := spindle.Run(t.Context(), func(ctx context.Context) error {
				spindle.RootNursery(ctx).Go(task)
				return forever(ctx)
			})
			t.Errorf("ended with %v", err)
		})
	}
}

// TestThreadMayBeLockedBetweenWaits and by blocking work.
func TestThreadMayBeLockedBetweenWaits(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		for range 100 {
			runtime.LockOSThread()
			runtime.UnlockOSThread()
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
		_, err := spindle.Blocking(ctx, func() (int, error) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			return 0, nil
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSteppedOnALockedThread: the goroutine that steps the loop may be locked to its
// thread; tasks run there then.
func TestSteppedOnALockedThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := newLoop(t)
	ended := errors.New("not yet")
	spindle.RunOn(t.Context(), l, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
			for range 3 {
				n.Go(func(ctx context.Context) error { return spindle.Yield(ctx) })
			}
			return nil
		})
	}, func(err error) { ended = err })
	for range 100 {
		if _, err := l.RunOnce(0); err != nil {
			t.Fatal(err)
		}
	}
	if ended != nil {
		t.Fatal(ended)
	}
}

// TestEndInDisorderWithALockedThread: a task that is locked to its thread may panic or exit.
// That is how Run ends, and the thread is unlocked.
func TestEndInDisorderWithALockedThread(t *testing.T) {
	for want, end := range map[any]func(){
		"oh": func() { panic("oh") },
		nil:  runtime.Goexit,
	} {
		ended := make(chan any, 1)
		go func() {
			defer func() {
				p, _ := recover().(*spindle.PanicError)
				if p == nil {
					ended <- nil
					return
				}
				ended <- p.Value
			}()
			spindle.Run(t.Context(), func(ctx context.Context) error {
				spindle.RootNursery(ctx).Go(func(context.Context) error {
					runtime.LockOSThread()
					end()
					return nil
				})
				return forever(ctx)
			})
			ended <- "Run has returned"
		}()
		if got := <-ended; got != want {
			t.Errorf("ended with %v, want %v", got, want)
		}
	}
}

// TestThreadLockedForSomeSteps: tasks continue when the thread is locked as it was
// when they began.
func TestThreadLockedForSomeSteps(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, _ := spindle.NurseryOn(t.Context(), l)
	var free, locked spindle.Waker
	ended := 0
	waits := func(w *spindle.Waker) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			if *w, err = spindle.NewWaker(ctx); err != nil {
				return err
			}
			if err := w.Park(ctx, "the test", spindle.AbortFunc(func() bool { return true })); err != nil {
				return err
			}
			err = spindle.Yield(ctx)
			ended++
			return err
		}
	}
	steps := func() {
		for range 4 {
			if _, err := l.RunOnce(0); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.Go(waits(&free))
	steps()
	runtime.LockOSThread()
	n.Go(waits(&locked))
	steps()
	runtime.UnlockOSThread()
	free.Wake(nil)
	steps()
	runtime.LockOSThread()
	locked.Wake(nil)
	steps()
	if ended != 2 {
		t.Errorf("%d have ended", ended)
	}
	if err := l.Close(); err != nil { // ends both coroutines, each where it can
		t.Error(err)
	}
	runtime.UnlockOSThread()
}
