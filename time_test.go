package spindle_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
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

// TestYieldLetsTimersFire: a task that computes for milliseconds and yields delays others by no
// more than that.
func TestYieldLetsTimersFire(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		slept := 0
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				for {
					if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
						return err
					}
					slept++
				}
			})
			for range 40 {
				for began := time.Now(); time.Since(began) < 2*time.Millisecond; {
				}
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			if slept < 15 { // two yields for each: one until the timer fires, one until it is set again
				t.Errorf("%d sleeps of 1 ms beside 40 yields, with 2 ms between", slept)
			}
			n.Scope().Cancel(nil)
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}
