package spindle

import (
	"context"
	"fmt"
	"time"
)

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

// FailAfter runs fn and cancels it after d. If that ended fn, it fails with a
// *TimeoutError, which names the wait that was cancelled and wraps the error of fn. Code
// that does not wait is not interrupted. If other code cancels the scope of fn, FailAfter
// returns the error of fn. It is asyncio's wait_for and timeout.
func FailAfter(ctx context.Context, d time.Duration, fn func(context.Context) error) error {
	return withTimeout(ctx, "FailAfter", d, (*Scope).open, fn)
}

// Grace runs fn shielded from cancellation outside, for at most d. It is for cleaning up
// that has to wait. If the time runs out, it fails with a *TimeoutError.
func Grace(ctx context.Context, d time.Duration, fn func(context.Context) error) error {
	return withTimeout(ctx, "Grace", d, (*Scope).openShielded, fn)
}

// Shield runs fn so that a cancellation outside does not reach it. After fn has returned,
// the next wait fails if there was one.
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
	return &TimeoutError{After: d, Waiting: sc.interrupted.String(), Err: inner}
}

// expired reports whether the deadline of the scope has ended the code inside.
func (sc *Scope) expired() bool { return sc.caught && sc.canceled.late }

// after returns the time of the loop's clock in d; noDeadline if that is too far.
func after(sc *Scope, d time.Duration) time.Duration { return saturatingAdd(sc.s.l.Time(), d) }

// ErrTimeout is what errors.Is finds in the errors of FailAfter and Grace when the time
// has run out. It equals context.DeadlineExceeded for errors.Is.
var ErrTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string        { return "spindle: timed out" }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }
func (timeoutError) Timeout() bool        { return true }
func (timeoutError) Temporary() bool      { return true } // for net.Error

// TimeoutError is the error of FailAfter and Grace when the time has run out. For
// errors.Is it equals ErrTimeout and context.DeadlineExceeded. It is a net.Error.
type TimeoutError struct {
	After time.Duration // the time that the function had

	// Waiting is the first wait that was cancelled, with its task, and the number
	// of others. It is "" if the time ran out between two waits.
	Waiting string

	Err error // the error of the function
}

func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("spindle: timed out after %v", e.After)
	if e.Waiting != "" {
		text += " waiting for " + e.Waiting
	}
	if _, bare := e.Err.(*Canceled); !bare { // its text would repeat this one
		text += ": " + e.Err.Error()
	}
	return text
}

// Is reports whether target is ErrTimeout or context.DeadlineExceeded.
func (e *TimeoutError) Is(target error) bool {
	return target == ErrTimeout || target == context.DeadlineExceeded
}

// Unwrap returns the error of the function.
func (e *TimeoutError) Unwrap() error { return e.Err }

// Timeout returns true, for net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary returns true, for net.Error.
func (e *TimeoutError) Temporary() bool { return true }

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
