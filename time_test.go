package spindle_test

import (
	"context"
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

func TestTickerMisuse(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		mustPanic(t, "spindle: NewTicker of a Ticker with a period that is not positive", func() { spindle.NewTicker(ctx, 0) })
		mustPanic(t, "spindle: Wait of a Ticker that NewTicker did not make", func() { new(spindle.Ticker).Wait(ctx) })
		return nil
	})
}

// TestLongWorkLetsTimersFire: a task that computes for milliseconds between two waits delays
// others by no more than that, also if its waits need not wait. The first 64 of those may delay
// them together.
func TestLongWorkLetsTimersFire(t *testing.T) {
	for name, wait := range map[string]func(context.Context) error{
		"Yield":      spindle.Yield,
		"Checkpoint": spindle.Checkpoint,
	} {
		slept := 0
		quiet := spindle.Options{Loop: loop.Options{Watchdog: -1}}
		err := spindle.RunWith(t.Context(), quiet, func(ctx context.Context) error {
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
