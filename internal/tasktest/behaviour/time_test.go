package behaviour_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

func TestTickerKeepsItsPace(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		begin := spindle.Now(ctx)
		ticker := spindle.NewTicker(ctx, 10*time.Millisecond)
		var ticks []time.Duration
		for _, work := range []time.Duration{0, 4 * time.Millisecond, 27 * time.Millisecond, 0, 0} {
			if err := ticker.Wait(ctx); err != nil {
				return err
			}
			ticks = append(ticks, spindle.Now(ctx).Sub(begin).Round(time.Millisecond))
			if err := spindle.Sleep(ctx, work); err != nil {
				return err
			}
		}
		ms := time.Millisecond
		// The work of 27 ms begins at 30: the ticks at 40 and 50 come as one, at 57.
		if want := []time.Duration{10 * ms, 20 * ms, 30 * ms, 57 * ms, 60 * ms}; !slices.Equal(ticks, want) {
			t.Errorf("ticks at %v; want %v", ticks, want)
		}
		ticker.Reset(ctx, time.Second)
		reset := spindle.Now(ctx)
		if err := ticker.Wait(ctx); err != nil {
			return err
		}
		if got := spindle.Now(ctx).Sub(reset).Round(ms); got != time.Second {
			t.Errorf("after Reset the tick came in %v", got)
		}
		return nil
	})
}

func TestTickerEndsWithItsScope(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		ticks := 0
		expired, err := spindle.MoveOnAfter(ctx, 95*time.Millisecond, func(ctx context.Context) error {
			ticker := spindle.NewTicker(ctx, 10*time.Millisecond)
			for {
				if err := ticker.Wait(ctx); err != nil {
					return err
				}
				ticks++
			}
		})
		if !expired || ticks != 9 {
			t.Errorf("expired: %v, %d ticks", expired, ticks)
		}
		return err
	})
}

// TestTickerWithALongPeriod: a tick beyond the end of the clock never comes.
func TestTickerWithALongPeriod(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		if err := spindle.Sleep(ctx, time.Second); err != nil { // the clock does not show 0
			return err
		}
		for _, reset := range []bool{false, true} {
			ticker := spindle.NewTicker(ctx, math.MaxInt64)
			if reset {
				ticker.Reset(ctx, math.MaxInt64-1)
			}
			if expired, err := spindle.MoveOnAfter(ctx, time.Hour, ticker.Wait); !expired || err != nil {
				t.Errorf("reset %v: expired %v, %v", reset, expired, err)
			}
		}
		// The second tick is beyond the end.
		ticker := spindle.NewTicker(ctx, math.MaxInt64/2+1)
		if err := ticker.Wait(ctx); err != nil {
			return err
		}
		if expired, err := spindle.MoveOnAfter(ctx, time.Hour, ticker.Wait); !expired || err != nil {
			t.Errorf("second tick: expired %v, %v", expired, err)
		}
		return nil
	})
}

func TestTickerResetMovesAWait(t *testing.T) {
	for _, c := range []struct{ before, after time.Duration }{{time.Hour, time.Second}, {2 * time.Second, time.Hour}} {
		sim.Test(t, func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				ticker := spindle.NewTicker(ctx, c.before)
				var reset time.Time
				n.Go(func(ctx context.Context) error {
					for i := range 2 {
						if err := ticker.Wait(ctx); err != nil {
							return err
						}
						if got, want := spindle.Now(ctx).Sub(reset), time.Duration(i+1)*c.after; got != want {
							t.Errorf("from %v to %v: tick %d came %v after Reset, want %v", c.before, c.after, i, got, want)
						}
					}
					return nil
				})
				if err := spindle.Sleep(ctx, time.Second); err != nil {
					return err
				}
				ticker.Reset(ctx, c.after)
				reset = spindle.Now(ctx)
				return nil
			})
		})
	}
}

// TestTickerIsShared: each tick is for one task, in the order in which they wait.
func TestTickerIsShared(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		begin := spindle.Now(ctx)
		ticker := spindle.NewTicker(ctx, time.Second)
		var got []string
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for task := range 3 {
				n.Go(func(ctx context.Context) error {
					for range 2 {
						if err := ticker.Wait(ctx); err != nil {
							return err
						}
						got = append(got, fmt.Sprintf("task %d at %v", task, spindle.Now(ctx).Sub(begin)))
					}
					return nil
				})
			}
			return nil
		})
		want := []string{"task 0 at 1s", "task 1 at 2s", "task 2 at 3s", "task 0 at 4s", "task 1 at 5s", "task 2 at 6s"}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		return err
	})
}

// TestTickerOutlivesACancelledWait: if a wait is cancelled, its tick is for the next task,
// and no timer remains when no task waits.
func TestTickerOutlivesACancelledWait(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		ticker := spindle.NewTicker(ctx, time.Second)
		begin := l.Time()
		timers := l.Stats().Timers
		if expired, err := spindle.MoveOnAfter(ctx, time.Millisecond, ticker.Wait); !expired || err != nil {
			t.Errorf("expired %v, %v", expired, err)
		}
		if now := l.Stats().Timers; now != timers {
			t.Errorf("%d timers, %d before", now, timers)
		}
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var first *spindle.Scope
			n.Go(func(ctx context.Context) error {
				return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
					first = s
					return ticker.Wait(ctx)
				})
			})
			if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
				return err
			}
			// The first task has left the queue, but has not returned from Wait.
			first.Cancel(nil)
			return ticker.Wait(ctx)
		})
		if got := l.Time() - begin; got != time.Second {
			t.Errorf("the tick came after %v", got)
		}
		if now := l.Stats().Timers; now != timers {
			t.Errorf("%d timers at the end, %d before", now, timers)
		}
		return err
	})
}

func TestTickerMisuse(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		mustPanic(t, "spindle: NewTicker of a Ticker with a period that is not positive", func() { spindle.NewTicker(ctx, 0) })
		mustPanic(t, "spindle: Wait of a Ticker that NewTicker did not make", func() { new(spindle.Ticker).Wait(ctx) })
		return nil
	})
}

// TestLongWorkLetsTimersFire: a task that computes for milliseconds between two waits delays
// others by no more than that, even if its waits need not wait. The first 64 of those may delay
// them together.
func TestLongWorkLetsTimersFire(t *testing.T) {
	for name, wait := range map[string]func(context.Context) error{
		"Yield":      spindle.Yield,
		"Checkpoint": spindle.Checkpoint,
	} {
		slept := 0
		quiet := spindle.Options{Loop: loop.Options{Watchdog: -1}}
		err := quiet.Run(t.Context(), func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(func(ctx context.Context) error {
					for {
						if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
							return err
						}
						slept++
					}
				})
				for range 64 + 40 {
					for began := time.Now(); time.Since(began) < 2*time.Millisecond; {
					}
					if err := wait(ctx); err != nil {
						return err
					}
				}
				n.Scope().Cancel(nil)
				return nil
			})
		})
		// Two waits for each: one until the timer fires, one until it is set again.
		if err != nil || slept < 15 {
			t.Errorf("%s: %d sleeps of 1 ms beside 104 waits, with 2 ms between: %v", name, slept, err)
		}
	}
}
