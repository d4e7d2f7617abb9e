package spindle

import (
	"context"
	"time"
)

// Ticker paces a task. Its ticks are one period apart, counted from NewTicker, however
// long the task takes for its work between them.
//
//	ticker := spindle.NewTicker(ctx, time.Second)
//	for {
//		if err := ticker.Wait(ctx); err != nil {
//			return err
//		}
//		… // once a second
//	}
//
// A Ticker holds no timer while no task waits for it, and needs no Stop. It is for
// tasks of one loop.
type Ticker struct {
	period time.Duration
	next   time.Duration // on the loop's clock
}

// NewTicker makes a Ticker. Its first tick is one period from now. It panics if the period
// is not positive.
func NewTicker(ctx context.Context, period time.Duration) *Ticker {
	t := &Ticker{}
	t.reset("NewTicker", ctx, period)
	return t
}

// Wait waits for the next tick. If ticks have passed since the last Wait, it returns
// without waiting, once for all of them, as time.Ticker drops ticks for a slow receiver.
func (t *Ticker) Wait(ctx context.Context) error {
	if t.period == 0 {
		panic("spindle: Wait of a Ticker that NewTicker did not make")
	}
	now := LoopOf(ctx).Time()
	if now < t.next {
		if err := sleepUntil(ctx, "Ticker.Wait", t.next); err != nil {
			return err
		}
		t.next += t.period
		return nil
	}
	if err := Checkpoint(ctx); err != nil {
		return err
	}
	t.next += (now-t.next)/t.period*t.period + t.period
	return nil
}

// Reset changes the period. The next tick is one period from now.
func (t *Ticker) Reset(ctx context.Context, period time.Duration) { t.reset("Reset", ctx, period) }

func (t *Ticker) reset(op string, ctx context.Context, period time.Duration) {
	if period <= 0 {
		panic("spindle: " + op + " of a Ticker with a period that is not positive")
	}
	t.period, t.next = period, LoopOf(ctx).Time()+period
}
