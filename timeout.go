package spindle

import (
	"context"
	"fmt"
	"time"
)

// MoveOnAfter runs fn and gives up on it after d: then it returns true, and nil
// unless fn failed otherwise. An fn that is late but returns nil, because it did not
// wait or dropped the error of its wait, has succeeded: then it returns false.
func MoveOnAfter(ctx context.Context, d time.Duration, fn func(context.Context) error) (expired bool, err error) {
	sc, err := within(ctx, "MoveOnAfter", (*Scope).open, func(ctx context.Context, sc *Scope) error {
		sc.setDeadline(after(sc, d))
		return fn(ctx)
	})
	return sc.caught, err
}

// ErrTimeout is what the errors of FailAfter and Grace are to errors.Is when the time
// has run out. To errors.Is it is context.DeadlineExceeded.
var ErrTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string        { return "spindle: timed out" }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }
func (timeoutError) Timeout() bool        { return true }
func (timeoutError) Temporary() bool      { return true } // as net.Error has it

// TimeoutError is the error of FailAfter and Grace when the time has run out. To
// errors.Is it is ErrTimeout and context.DeadlineExceeded, and it is a net.Error.
type TimeoutError struct {
	After time.Duration // the time that the function had

	// Waiting is what was being waited for, and in which task: the first wait
	// that was cut short, and the number of others. It is "" if the time ran
	// out between two waits.
	Waiting string

	Err error // what the function returned
}

func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("spindle: timed out after %v", e.After)
	if e.Waiting != "" {
		text += " waiting for " + e.Waiting
	}
	if _, bare := e.Err.(*Canceled); !bare { // which would say the same again
		text += ": " + e.Err.Error()
	}
	return text
}

// Is reports whether target is ErrTimeout or context.DeadlineExceeded.
func (e *TimeoutError) Is(target error) bool {
	return target == ErrTimeout || target == context.DeadlineExceeded
}

// Unwrap returns what the function returned.
func (e *TimeoutError) Unwrap() error { return e.Err }

// Timeout returns true, for net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary returns true, for net.Error.
func (e *TimeoutError) Temporary() bool { return true }

// FailAfter runs fn and fails with a *TimeoutError if that cuts it short after d: code
// that does not wait is not cut short. The error says what was being waited for, and
// wraps what fn returned. It is asyncio's wait_for and timeout.
func FailAfter(ctx context.Context, d time.Duration, fn func(context.Context) error) error {
	return limited(ctx, "FailAfter", d, (*Scope).open, fn)
}

// Grace runs fn shielded from cancellation outside, for at most d: for cleaning
// up that has to wait. It fails with a *TimeoutError if that cuts fn short.
func Grace(ctx context.Context, d time.Duration, fn func(context.Context) error) error {
	return limited(ctx, "Grace", d, (*Scope).openShielded, fn)
}

func limited(ctx context.Context, op string, d time.Duration, open opener, fn func(context.Context) error) error {
	var inner error
	sc, err := within(ctx, op, open, func(ctx context.Context, sc *Scope) error {
		sc.setDeadline(after(sc, d))
		inner = fn(ctx)
		return inner
	})
	if !sc.caught {
		return err
	}
	return &TimeoutError{After: d, Waiting: sc.cut.String(), Err: inner}
}

// cut is the waits that a scope's deadline has cut short; nil for none.
type cut struct {
	first string
	more  int
}

// add adds the wait of t.
func (c *cut) add(t *Task) *cut {
	if c == nil {
		what, _, _ := t.co.Wait()
		return &cut{first: fmt.Sprintf("%s (task %s)", what, t.Name())}
	}
	c.more++
	return c
}

func (c *cut) String() string {
	switch {
	case c == nil:
		return ""
	case c.more > 0:
		return fmt.Sprintf("%s, and %d more", c.first, c.more)
	}
	return c.first
}

// after is d from now, without overflow.
func after(sc *Scope, d time.Duration) time.Duration {
	now := sc.s.l.Time()
	if when := now + d; d < 0 || when >= now {
		return when
	}
	return noDeadline
}
