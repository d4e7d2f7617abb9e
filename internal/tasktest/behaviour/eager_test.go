package behaviour_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// TestEagerTaskBeginsAtOnce: it runs inside Go up to its first wait, and nothing else runs
// meanwhile.
func TestEagerTaskBeginsAtOnce(t *testing.T) {
	eager := spindle.TaskOptions{Name: "eager", Eager: true}
	sim.Test(t, func(ctx context.Context) error {
		var order []string
		note := func(what string) { order = append(order, what) }
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(context.Context) error { note("other"); return nil })
			note("before")
			n.GoWith(eager, func(ctx context.Context) error {
				note("begins")
				if spindle.Current(ctx).Name() != "eager" {
					t.Errorf("it runs as %q", spindle.Current(ctx).Name())
				}
				err := spindle.Yield(ctx)
				note("goes on")
				return err
			})
			note("between")
			n.GoWith(eager, func(context.Context) error { note("ends"); return nil })
			note("after")
			if spindle.Current(ctx).Name() != "main" {
				t.Errorf("then %q runs", spindle.Current(ctx).Name())
			}
			return nil
		})
		want := []string{"before", "begins", "between", "ends", "after", "other", "goes on"}
		if !slices.Equal(order, want) {
			t.Errorf("the order was %q; want %q", order, want)
		}
		return err
	})
}

func TestEagerTaskFromACallback(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		begun := false
		spindle.LoopOf(ctx).CallSoon(func() {
			spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Eager: true}, func(ctx context.Context) error {
				begun = true
				return spindle.Sleep(ctx, time.Second)
			})
			if !begun {
				t.Error("not begun when Go returned")
			}
		})
		return spindle.Sleep(ctx, time.Minute)
	})
}

func TestEagerTaskThatFailsFailsItsNursery(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		boom := errors.New("boom")
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Eager: true}, func(context.Context) error { return boom })
			if ctx.Err() == nil {
				t.Error("the nursery is not cancelled")
			}
			return nil
		})
		if err != boom {
			t.Errorf("the nursery ended with %v", err)
		}
		return nil
	})
}

// TestEagerTasksInEachOther start at any depth.
func TestEagerTasksInEachOther(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			deepest := 0
			var start func(depth int)
			start = func(depth int) {
				n.GoWith(spindle.TaskOptions{Eager: true}, func(ctx context.Context) error {
					deepest = depth
					if depth < 20 {
						start(depth + 1)
					}
					return spindle.Yield(ctx)
				})
			}
			start(1)
			if deepest != 20 {
				t.Errorf("%d begun", deepest)
			}
			return nil
		})
	})
}

// TestAnEagerTaskCannotWaitForItsStarter, and its attempt leaves nothing behind.
func TestAnEagerTaskCannotWaitForItsStarter(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		agree := spindle.AbortFunc(func() bool { return true })
		w, err := spindle.NewWaker(ctx)
		if err != nil {
			return err
		}
		spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Eager: true}, func(ctx context.Context) error {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, "Waker of another wait") {
					t.Errorf("panic %q", said)
				}
				if w.Wake(nil) {
					t.Error("a task was woken that does not wait")
				}
			}()
			return w.Park(ctx, "nothing", agree)
		})
		woken := false
		spindle.LoopOf(ctx).CallSoon(func() { woken = w.Wake(nil) })
		if err := w.Park(ctx, "the callback", agree); err != nil || !woken {
			t.Errorf("Park: %v, woken %v", err, woken)
		}
		return nil
	})
}
