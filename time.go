package spindle

import (
	"context"
	"time"

	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/loop"
)

// Sleep waits for at least d. If d is not positive, it only lets other tasks run.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return Yield(ctx)
	}
	w, err := NewWaker(ctx)
	if err != nil {
		return err
	}
	waits := w.task().waits()
	waits.timer = waits.loop().CallLater(d, waits.alarm())
	return w.Park(ctx, "Sleep", (*sleeping)(waits))
}

// SleepUntil waits until when; see Now. It returns at once if that has passed.
func SleepUntil(ctx context.Context, when time.Time) error {
	return sleepUntil(ctx, "SleepUntil", sinceStart(LoopOf(ctx), when))
}

// sleepUntil waits until the loop's clock has reached when.
func sleepUntil(ctx context.Context, op string, when time.Duration) error {
	w, err := NewWaker(ctx)
	if err != nil {
		return err
	}
	waits := w.task().waits()
	waits.timer = waits.loop().CallAt(when, waits.alarm())
	return w.Park(ctx, op, (*sleeping)(waits))
}

// sleeping aborts a sleep by cancelling the task's timer.
type sleeping waits

func (s *sleeping) Abort() bool { return s.timer.Cancel() }

// Yield lets everything run that is ready, and then returns.
func Yield(ctx context.Context) error {
	w, err := NewWaker(ctx)
	if err != nil {
		return err
	}
	coro.Waker(w).Coro().Yield()
	return nil
}

// Now returns the current time of the loop that ctx belongs to. On a real system that is
// the time at which the loop was made, plus the time that has passed since by a clock
// that is never set. In a simulated run it is the simulated time.
func Now(ctx context.Context) time.Time {
	l := LoopOf(ctx)
	return timeOf(l, l.Time())
}

// timeOf returns the time at which the loop's clock shows at.
func timeOf(l *loop.Loop, at time.Duration) time.Time { return l.Internal().Kernel().At(at) }

// sinceStart returns what the loop's clock shows at a time. It is the inverse of timeOf.
func sinceStart(l *loop.Loop, when time.Time) time.Duration {
	return when.Sub(l.Internal().Kernel().At(0))
}

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
