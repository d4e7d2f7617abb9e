package behaviour_test

import (
	"context"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/sim"
)

// TestWakerOfAnEndedTask: the coroutine and the Task of a task that has ended are
// reused. A Waker of the first task wakes no later one.
func TestWakerOfAnEndedTask(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		var old spindle.Waker
		wait := func(keep *spindle.Waker) func(context.Context) error {
			return func(ctx context.Context) error {
				w, err := spindle.NewWaker(ctx)
				if err != nil {
					return err
				}
				*keep = w
				return w.Park(ctx, "the test", spindle.AbortFunc(func() bool { return true }))
			}
		}
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(wait(&old))
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			if !old.Wake(nil) {
				t.Error("the first does not wait")
			}
			return nil
		})
		if err != nil {
			return err
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var young spindle.Waker
			n.Go(wait(&young))
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			if old.Wake(nil) {
				t.Error("it wakes another task")
				return nil
			}
			if !young.Wake(nil) {
				t.Error("the second does not wait")
			}
			return nil
		})
	})
}

// TestParkWithTheWrongWaker panics, and does not affect other waits.
func TestParkWithTheWrongWaker(t *testing.T) {
	abort := spindle.AbortFunc(func() bool { return true })
	sim.Test(t, func(ctx context.Context) error {
		refused := func(what string, w spindle.Waker, abort spindle.Aborter) {
			t.Helper()
			defer func() {
				if got := recover(); got != "spindle: a task waits with the Waker of another wait" {
					t.Errorf("%s: panic %v", what, got)
				}
			}()
			w.Park(ctx, "the test", abort)
			t.Errorf("%s: it waits", what)
		}
		refused("no Waker at all", spindle.Waker{}, abort)
		w, err := spindle.NewWaker(ctx)
		if err != nil {
			return err
		}
		refused("nothing to take it back", w, nil)
		spindle.LoopOf(ctx).CallSoon(func() {
			refused("of a task that waits already", w, abort)
			w.Wake(nil)
		})
		if err := w.Park(ctx, "the test", abort); err != nil {
			return err
		}
		refused("for the second time", w, abort)

		next, err := spindle.NewWaker(ctx)
		if err != nil {
			return err
		}
		spindle.LoopOf(ctx).CallSoon(func() {
			refused("of a task that is about to go on", next, abort)
			refused("of a task that is about to go on, with nothing to take it back", next, nil)
		})
		if err := spindle.Yield(ctx); err != nil {
			return err
		}
		next.Pass()
		return nil
	})
}

// TestAWaitGivesANewShare: after a wait, a task has its full budget of immediate completions
// again.
func TestAWaitGivesANewShare(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			turns, over := 0, false
			n.Go(func(ctx context.Context) error {
				for !over {
					turns++
					if err := spindle.Yield(ctx); err != nil {
						return err
					}
				}
				return nil
			})
			defer func() { over = true }()
			for range 3 {
				w, err := spindle.NewWaker(ctx)
				if err != nil {
					return err
				}
				spindle.LoopOf(ctx).CallSoon(func() { w.Wake(nil) })
				if err := w.Park(ctx, "the test", spindle.AbortFunc(func() bool { return true })); err != nil {
					return err
				}
				before := turns
				for range 50 {
					if err := spindle.Checkpoint(ctx); err != nil {
						return err
					}
				}
				if turns != before {
					t.Fatalf("the other task has had %d turns", turns-before)
				}
			}
			return nil
		})
	})
}

// TestWakeFromAnotherGoroutineIsNamed in a panic, and the wait continues.
func TestWakeFromAnotherGoroutineIsNamed(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var w spindle.Waker
			n.Go(func(ctx context.Context) (err error) {
				if w, err = spindle.NewWaker(ctx); err != nil {
					return err
				}
				return w.Park(ctx, "a wake", spindle.AbortFunc(func() bool { return true }))
			})
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			said := make(chan any)
			go func() {
				defer func() { said <- recover() }()
				w.Wake(nil)
			}()
			if text, _ := (<-said).(string); !strings.Contains(text, "Waker.Wake called from a goroutine that is not the loop's") {
				t.Errorf("panic %q", text)
			}
			if !w.Wake(nil) {
				t.Error("the wait has ended")
			}
			return nil
		})
	})
}

// TestAWaitThatSucceedsClearsTheRecord: only waits that fail in a row slow a task down.
func TestAWaitThatSucceedsClearsTheRecord(t *testing.T) {
	for name, succeed := range map[string]func(context.Context) error{
		"Checkpoint": spindle.Checkpoint,
		"Yield":      spindle.Yield,
	} {
		sim.Test(t, func(ctx context.Context) error {
			return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				s.Cancel(nil)
				for range 10 {
					for range 10 {
						if err := spindle.Checkpoint(ctx); err == nil {
							t.Errorf("%s: a wait in a cancelled scope succeeds", name)
						}
					}
					if err := spindle.Shield(ctx, succeed); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
				if now := spindle.LoopOf(ctx).Time(); now != 0 {
					t.Errorf("%s: slowed down by %v", name, now)
				}
				return nil
			})
		})
	}
}

// TestPassAndBackWithTheWrongWaker panic: with that of a task that waits, of one that has
// ended, and with the zero Waker.
func TestPassAndBackWithTheWrongWaker(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var waits, ended spindle.Waker
			n.Go(func(ctx context.Context) (err error) {
				if waits, err = spindle.NewWaker(ctx); err != nil {
					return err
				}
				return waits.Park(ctx, "a wake", spindle.AbortFunc(func() bool { return true }))
			})
			n.Go(func(ctx context.Context) (err error) {
				ended, err = spindle.NewWaker(ctx)
				ended.Pass()
				return err
			})
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			for name, call := range map[string]func(){
				"Pass of one that waits": func() {
					for range 100 {
						waits.Pass()
					}
				},
				"Back of one that waits": func() { coro.Waker(waits).Back() },
				"Back of one that ended": func() { coro.Waker(ended).Back() },
				"Back of none":           func() { coro.Waker{}.Back() },
			} {
				func() {
					defer func() {
						if text, _ := recover().(string); !strings.Contains(text, "Waker of another wait") {
							t.Errorf("%s: panic %q", name, text)
						}
					}()
					call()
				}()
			}
			if !waits.Wake(nil) {
				t.Error("the wait has ended")
			}
			return nil
		})
	})
}
