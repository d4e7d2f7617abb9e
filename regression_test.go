package spindle_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

func TestShieldedStragglerIsEnded(t *testing.T) {
	for name, wait := range map[string]func(context.Context) error{
		"waits for ever": forever,
		"parks for an hour": func(ctx context.Context) error {
			w, err := spindle.NewWaker(ctx)
			if err != nil {
				return err
			}
			timer := w.Loop().CallLater(time.Hour, func() { w.Wake(nil) })
			return w.Park(ctx, "an hour", spindle.AbortFunc(timer.Cancel))
		},
	} {
		t.Run(name, func(t *testing.T) {
			deferred := false
			err := sim.Run(t.Context(), func(ctx context.Context) error {
				spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Name: "shielded"}, func(ctx context.Context) error {
					defer func() { deferred = true }()
					return spindle.Shield(ctx, func(ctx context.Context) error {
						for i := 0; ; i++ {
							wait(ctx)
							if i > 1000 {
								t.Error("it was not ended")
								return nil
							}
						}
					})
				})
				return spindle.Yield(ctx)
			})
			var late *spindle.StragglerError
			if !errors.As(err, &late) || late.Tasks[0] != "shielded" || !deferred {
				t.Fatalf("%v, deferred %v", err, deferred)
			}
		})
	}
}

// TestContextEndsAsTheRunDoes: the cancellation that comes too late is not work
// that was lost.
func TestContextEndsAsTheRunDoes(t *testing.T) {
	for range 2000 {
		ctx, cancel := context.WithCancel(context.Background())
		err := spindle.Run(ctx, func(ctx context.Context) error { cancel(); return nil })
		if err != nil && err != context.Canceled {
			t.Fatal(err)
		}
	}
}

// TestShieldFromADerivedContext: one that the standard library derived, and that
// is cancelled already.
func TestShieldFromADerivedContext(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		derived, cancel := context.WithCancel(ctx)
		cancel()
		if err := spindle.Shield(derived, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) }); err != nil {
			t.Errorf("shielded: %v", err)
		}
		err := spindle.WithScope(derived, func(ctx context.Context, s *spindle.Scope) error { return forever(ctx) })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("not shielded: %v", err)
		}
		return nil
	})
}

// TestForeignGoroutineIsRefusedWithoutARace needs the race detector to fail.
func TestForeignGoroutineIsRefusedWithoutARace(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		done := make(chan any, 1)
		go func() {
			defer func() { done <- recover() }()
			if spindle.Current(ctx) != nil {
				t.Error("a goroutine was taken for a task")
			}
			spindle.Checkpoint(ctx)
		}()
		for range 1000 {
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
		if <-done == nil {
			t.Error("not refused")
		}
		if spindle.Current(ctx) == nil {
			t.Error("a task was not recognised")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestForeignGoroutinesAreNamed: what belongs to a loop cannot be changed from
// elsewhere.
func TestForeignGoroutinesAreNamed(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			f := spindle.NewFuture[int](ctx)
			n := spindle.RootNursery(ctx)
			for name, call := range map[string]func(){
				"Scope.Cancel":      func() { s.Cancel(nil) },
				"Scope.Shield":      func() { s.Shield(true) },
				"Scope.SetDeadline": func() { s.SetDeadline(time.Now()) },
				"Nursery.Go":        func() { n.Go(forever) },
				"a Future":          func() { f.Resolve(1) },
				"Future.Then":       func() { f.Then(func() {}) },
			} {
				caught := make(chan any)
				go func() {
					defer func() { caught <- recover() }()
					call()
				}()
				if text, ok := (<-caught).(string); !ok || !strings.HasPrefix(text, "spindle: ") || !strings.Contains(text, name) {
					t.Errorf("%s: panic %v", name, text)
				}
			}
			return spindle.Yield(ctx) // unharmed
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestGoexitInABodyEndsItsChildren(t *testing.T) {
	var child error
	func() {
		defer func() { recover() }()
		sim.Run(t.Context(), func(ctx context.Context) error {
			spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.Go(func(ctx context.Context) error { child = spindle.Sleep(ctx, time.Hour); return child })
					spindle.Yield(ctx)
					runtime.Goexit()
					return nil
				})
			})
			return spindle.Sleep(ctx, 2*time.Hour)
		})
	}()
	if !errors.Is(child, context.Canceled) {
		t.Fatalf("the child ended with %v", child)
	}
}

// TestLoopIsLeftAsItWasFound: it can be used again, and nothing of a run is left
// in it.
func TestLoopIsLeftAsItWasFound(t *testing.T) {
	r, err := spindle.NewRunner(spindle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		done := make(chan error) // each time from another goroutine
		go func() {
			done <- r.Run(t.Context(), func(ctx context.Context) error {
				spindle.RootNursery(ctx).Go(forever)
				return spindle.Sleep(ctx, time.Microsecond)
			})
		}()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if s := r.Loop().Stats(); s.Timers != 0 || s.Ready != 0 || s.FDs != 0 {
			t.Fatalf("left in the loop: %+v", s)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestUnknownPriorityIsNamed(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		defer func() {
			if text, _ := recover().(string); !strings.Contains(text, "unknown priority") {
				t.Errorf("panic %q", text)
			}
		}()
		spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Priority: 9}, forever)
		return nil
	})
}
