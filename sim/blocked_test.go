package sim_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// The server waits before the client begins, without a sleep.
func ExampleWaitAllBlocked() {
	sim.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var requests spindle.Lot
			n.Go(func(ctx context.Context) error {
				fmt.Println("server waits")
				err := requests.Wait(ctx, "request")
				fmt.Println("server answers")
				return err
			})
			if err := sim.WaitAllBlocked(ctx); err != nil {
				return err
			}
			fmt.Println("client asks")
			requests.Wake(1)
			return nil
		})
	})
	// Output:
	// server waits
	// client asks
	// server answers
}

// simulate runs a program in a nursery under virtual time.
func simulate(t *testing.T, program func(ctx context.Context, n *spindle.Nursery) error) {
	t.Helper()
	sim.Test(t, func(ctx context.Context) error { return spindle.WithNursery(ctx, program) })
}

func TestWaitAllBlockedLetsOtherTasksWait(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		arrived := 0
		var gate spindle.Lot
		for i := range 10 {
			n.Go(func(ctx context.Context) error {
				for range 10 * i {
					if err := spindle.Yield(ctx); err != nil {
						return err
					}
				}
				arrived++
				return gate.Wait(ctx, "gate")
			})
		}
		for range 2 { // the second time there is nothing to wait for
			if err := sim.WaitAllBlocked(ctx); err != nil || arrived != 10 {
				t.Errorf("%d arrived, %v", arrived, err)
			}
		}
		gate.Wake(10)
		return nil
	})
}

// TestWaitAllBlockedReturnsBeforeTimePasses, and before offloaded work runs.
func TestWaitAllBlockedReturnsBeforeTimePasses(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		slept, worked := false, false
		n.Go(func(ctx context.Context) error {
			err := spindle.Sleep(ctx, time.Nanosecond)
			slept = true
			return err
		})
		n.Go(func(ctx context.Context) error {
			_, err := spindle.Blocking(ctx, func() (int, error) { worked = true; return 0, nil })
			return err
		})
		for range 3 {
			if err := sim.WaitAllBlocked(ctx); err != nil || slept || worked || spindle.LoopOf(ctx).Time() != 0 {
				t.Errorf("slept %v, worked %v, %v at %v", slept, worked, err, spindle.LoopOf(ctx).Time())
			}
		}
		if err := spindle.Sleep(ctx, time.Nanosecond); err != nil || !slept || !worked {
			t.Errorf("slept %v, worked %v, %v", slept, worked, err)
		}
		return nil
	})
}

// TestWaitAllBlockedReturnsAfterDueTimers: a timer that is due now runs first.
func TestWaitAllBlockedReturnsAfterDueTimers(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		fired := false
		spindle.LoopOf(ctx).CallLater(0, func() { fired = true })
		if err := sim.WaitAllBlocked(ctx); err != nil || !fired {
			t.Errorf("fired %v, %v", fired, err)
		}
		return nil
	})
}

func TestSeveralInWaitAllBlockedReturnTogether(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		var order strings.Builder
		for _, name := range []string{"a", "b", "c"} {
			n.Go(func(ctx context.Context) error {
				if err := sim.WaitAllBlocked(ctx); err != nil {
					return err
				}
				order.WriteString(name)
				err := spindle.Yield(ctx)
				order.WriteString(name)
				return err
			})
		}
		err := spindle.Sleep(ctx, time.Nanosecond)
		if order.String() != "abcabc" {
			t.Errorf("order %q", &order)
		}
		return err
	})
}

func TestWaitAllBlockedIsCancelled(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			n.Go(func(ctx context.Context) error {
				if tree := spindle.TreeOf(ctx).String(); !strings.Contains(tree, "waiting for WaitAllBlocked") {
					t.Errorf("tree:\n%s", tree)
				}
				s.Cancel(nil)
				return nil
			})
			err := sim.WaitAllBlocked(ctx)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
			return err
		})
		if err != nil {
			return err
		}
		return sim.WaitAllBlocked(ctx) // the cancelled call has left nothing behind
	})
}

// mustPanic checks that fn panics with a message of this package that contains words.
func mustPanic(t *testing.T, words string, fn func()) {
	t.Helper()
	defer func() {
		if text, _ := recover().(string); !strings.HasPrefix(text, "sim: ") || !strings.Contains(text, words) {
			t.Errorf("panic %q, want one about %q", text, words)
		}
	}()
	fn()
}

func TestMisuseOfWaitAllBlockedIsNamed(t *testing.T) {
	const noTask = "WaitAllBlocked called outside of the tasks"
	mustPanic(t, noTask, func() { sim.WaitAllBlocked(context.Background()) })
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		mustPanic(t, "not simulated", func() { sim.WaitAllBlocked(ctx) })
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		done := make(chan struct{})
		go func() {
			defer close(done)
			mustPanic(t, noTask, func() { sim.WaitAllBlocked(ctx) })
		}()
		<-done
		spindle.LoopOf(ctx).CallSoon(func() {
			mustPanic(t, noTask, func() { sim.WaitAllBlocked(ctx) })
		})
		return sim.WaitAllBlocked(ctx) // unharmed
	})
}
