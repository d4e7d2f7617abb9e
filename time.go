package spindle

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/loop"
)

// Sleep waits for at least d. If d is not positive, it only lets other tasks run. To wait
// until a moment, call it with when.Sub(Now(ctx)).
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
// Tasks may share a Ticker, to limit how often they all do something: each tick is for one
// task, in the order in which they began to wait. They must be tasks of one loop. A Ticker
// holds no timer while no task waits for it, and needs no Stop.
type Ticker struct {
	l       *loop.Loop
	period  time.Duration
	next    time.Duration // the time of the next tick, on the loop's clock
	waiters Lot
	timer   loop.Timer // calls fire at next, while tasks wait
	fire    func()     // t.tick, made once
}

// NewTicker makes a Ticker. Its first tick is one period from now. It panics if the period
// is not positive.
func NewTicker(ctx context.Context, period time.Duration) *Ticker {
	t := &Ticker{}
	t.reset("NewTicker", ctx, period)
	return t
}

// Wait waits for the next tick. If ticks have passed since the last one that a task
// waited for, Wait returns without waiting, once for all of them, as time.Ticker drops
// ticks for a slow receiver.
func (t *Ticker) Wait(ctx context.Context) error {
	if t.period == 0 {
		panic("spindle: Wait of a Ticker that NewTicker did not make")
	}
	if err := Checkpoint(ctx); err != nil {
		return err
	}
	if t.waiters.Empty() {
		if now := t.l.Time(); now >= t.next {
			t.advance(now)
			return nil
		}
		t.setTimer()
	}
	err := t.waiters.Wait(ctx, "Ticker.Wait")
	if err != nil && t.waiters.Empty() {
		t.timer.Cancel()
	}
	return err
}

// Reset changes the period. The next tick is one period from now, also for tasks that
// wait already.
func (t *Ticker) Reset(ctx context.Context, period time.Duration) { t.reset("Reset", ctx, period) }

func (t *Ticker) reset(op string, ctx context.Context, period time.Duration) {
	if period <= 0 {
		panic("spindle: " + op + " of a Ticker with a period that is not positive")
	}
	t.l = LoopOf(ctx)
	t.period, t.next = period, saturatingAdd(t.l.Time(), period)
	if !t.waiters.Empty() {
		t.setTimer()
	}
}

// setTimer sets the timer to the next tick. A cancelled wait may have left it set.
func (t *Ticker) setTimer() {
	if t.fire == nil {
		t.fire = t.tick
	}
	t.timer.Cancel()
	t.timer = t.l.CallAt(t.next, t.fire)
}

// tick gives a tick to the first task that waits. If there is none any more, the tick is
// for the next Wait.
func (t *Ticker) tick() {
	if t.waiters.Wake(1) == 0 {
		return
	}
	t.advance(t.l.Time())
	if !t.waiters.Empty() {
		t.setTimer()
	}
}

// advance makes the first tick after now the next one.
func (t *Ticker) advance(now time.Duration) {
	passed := (now - t.next) / t.period
	t.next = saturatingAdd(t.next+passed*t.period, t.period)
}

// saturatingAdd returns at+d, or the end of the clock if that is too far.
func saturatingAdd(at, d time.Duration) time.Duration {
	if sum := at + d; d < 0 || sum >= at {
		return sum
	}
	return math.MaxInt64
}

// MoveOnAfter runs fn and cancels it after d. If that ended fn, it returns true, and nil
// unless fn also failed for another reason. If fn is late but returns nil, because it did
// not wait or dropped the error of its wait, it has succeeded, and MoveOnAfter returns
// false.
func MoveOnAfter(ctx context.Context, d time.Duration, fn func(context.Context) error) (expired bool, err error) {
	sc, err := within(ctx, "MoveOnAfter", (*Scope).open, func(ctx context.Context, sc *Scope) error {
		sc.setDeadline(after(sc, d))
		return fn(ctx)
	})
	return sc.expired(), err
}

// FailAfter runs fn and cancels it after d. If that ended fn, it fails with an
// ErrTimeout that names the wait that was cancelled and wraps the error of fn. Code
// that does not wait is not interrupted. If other code cancels the scope of fn, FailAfter
// returns the error of fn. It is asyncio's wait_for and timeout.
func FailAfter(ctx context.Context, d time.Duration, fn func(context.Context) error) error {
	return withTimeout(ctx, "FailAfter", d, (*Scope).open, fn)
}

// Grace runs fn shielded from cancellation outside, for at most d. It is for cleaning up
// that has to wait. If the time runs out, it fails with such an ErrTimeout. A run that ends
// waits for it, even if d is longer than Options.Grace.
func Grace(ctx context.Context, d time.Duration, fn func(context.Context) error) error {
	return withTimeout(ctx, "Grace", d, (*Scope).openShielded, fn)
}

// Shield runs fn so that a cancellation outside does not reach it. After fn has returned,
// the next wait fails if there was one. A run that ends does not wait longer for it than
// Options.Grace; see Grace.
func Shield(ctx context.Context, fn func(context.Context) error) error {
	_, err := within(ctx, "Shield", (*Scope).openShielded, func(ctx context.Context, _ *Scope) error { return fn(ctx) })
	return err
}

func withTimeout(ctx context.Context, op string, d time.Duration, open openFunc, fn func(context.Context) error) error {
	var inner error
	sc, err := within(ctx, op, open, func(ctx context.Context, sc *Scope) error {
		sc.setDeadline(after(sc, d))
		inner = fn(ctx)
		return inner
	})
	switch {
	case sc.expired():
	case sc.caught: // other code has cancelled the scope
		return inner
	default:
		return err
	}
	return &timeoutError{after: d, waiting: sc.interrupted.String(), err: inner}
}

// expired reports whether the deadline of the scope has ended the code inside.
func (sc *Scope) expired() bool { return sc.caught && sc.canceled.late }

// after returns the time of the loop's clock in d; noDeadline if that is too far.
func after(sc *Scope, d time.Duration) time.Duration { return saturatingAdd(sc.s.l.Time(), d) }

// ErrTimeout is what errors.Is finds in the errors of FailAfter and Grace when the time
// has run out, and in that of a call of package relay without a reply in time. It equals
// context.DeadlineExceeded for errors.Is, and is a net.Error.
var ErrTimeout error = timeout{}

type timeout struct{}

func (timeout) Error() string        { return "spindle: timed out" }
func (timeout) Is(target error) bool { return target == context.DeadlineExceeded }
func (timeout) Timeout() bool        { return true }
func (timeout) Temporary() bool      { return true } // for net.Error

// timeoutError is the error of FailAfter and Grace when the time has run out.
type timeoutError struct {
	timeout
	after time.Duration // the time that the function had

	// waiting is the first wait that was cancelled, with its task, and the number
	// of others. It is "" if the time ran out between two waits.
	waiting string

	err error // of the function
}

func (e *timeoutError) Error() string {
	text := fmt.Sprintf("spindle: timed out after %v", e.after)
	if e.waiting != "" {
		text += " waiting for " + e.waiting
	}
	if _, bare := e.err.(*Canceled); !bare { // its text would repeat this one
		text += ": " + e.err.Error()
	}
	return text
}

func (e *timeoutError) Is(target error) bool {
	return target == ErrTimeout || e.timeout.Is(target)
}

func (e *timeoutError) Unwrap() error { return e.err }

// interruptedWaits describes the waits that a scope's deadline has cancelled; nil for
// none.
type interruptedWaits struct {
	first string
	more  int
}

// add adds the wait of t.
func (w *interruptedWaits) add(t *Task) *interruptedWaits {
	if w == nil {
		what, _, _ := t.co.Wait()
		return &interruptedWaits{first: fmt.Sprintf("%s (task %s)", what, t.Name())}
	}
	w.more++
	return w
}

func (w *interruptedWaits) String() string {
	switch {
	case w == nil:
		return ""
	case w.more > 0:
		return fmt.Sprintf("%s, and %d more", w.first, w.more)
	}
	return w.first
}
