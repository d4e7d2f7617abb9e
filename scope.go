package spindle

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// Scope is a region of code that can be cancelled as one: everything that waits
// inside it, in any task. It is the context that tasks get and pass on.
//
// Cancellation is level-triggered: once a scope is cancelled, every wait inside
// it fails, until the code has left the scope. It is tied to identity: the error
// is a *Canceled that names its scope, and a scope takes back only its own.
//
// Methods that change a scope are for tasks and callbacks of its loop; those of
// context.Context are for any goroutine.
type Scope struct {
	s      *sched
	run    *run
	parent *Scope          // nil for the outermost of a run
	values context.Context // what it was opened with: where Value looks

	// blame is the scope whose cancellation is in force here: this one or the
	// outermost around it that a shield does not keep out; nil if none is.
	// Written on the loop, read by any goroutine.
	blame atomic.Pointer[Scope]

	// Loop goroutine only.
	canceled *Canceled // the error of this scope's own cancellation, once cancelled
	ended    Canceled  // what that is if the scope has ended without one
	timer    loop.Timer
	tasks    list // whose innermost scope it is
	closed   bool
	caught   bool

	// The scopes directly inside, oldest first; this one's place among its
	// siblings. Loop goroutine only.
	first, last, before, behind *Scope

	// Written on the loop, read by any goroutine.
	shielded atomic.Bool
	deadline atomic.Int64 // loop time; none is the largest

	// What the scope is to other contexts; see context.go.
	outside outside
}

const noDeadline = math.MaxInt64

// Canceled is the error of a wait that ended because a scope was cancelled. To
// errors.Is it is context.Canceled, or context.DeadlineExceeded if a deadline
// had passed; it wraps the cause.
type Canceled struct {
	Scope *Scope
	Cause error // context.Canceled, context.DeadlineExceeded, or what Cancel was given
	late  bool
}

func (e *Canceled) Error() string {
	if e.late {
		return "spindle: deadline exceeded"
	}
	if e.Cause != context.Canceled {
		return "spindle: cancelled: " + e.Cause.Error()
	}
	return "spindle: cancelled"
}

// Is tells what kind of cancellation it was.
func (e *Canceled) Is(target error) bool {
	return target == context.Canceled && !e.late || target == context.DeadlineExceeded && e.late
}

// Unwrap returns the cause.
func (e *Canceled) Unwrap() error { return e.Cause }

// Timeout is true for a deadline, as net.Error has it.
func (e *Canceled) Timeout() bool { return e.late }

// scopeKey is the key under which a scope answers with itself.
type scopeKey struct{}

// ScopeOf returns the innermost scope of ctx: that of the task ctx comes from, or of
// a WithScope in it. It returns nil if ctx does not come from a task. It may be
// called from any goroutine; the scope's own methods say where they may be called.
func ScopeOf(ctx context.Context) *Scope { return scopeOf(ctx) }

func scopeOf(ctx context.Context) *Scope {
	if s, ok := ctx.(*Scope); ok {
		return s
	}
	s, _ := ctx.Value(scopeKey{}).(*Scope)
	return s
}

// open makes the outermost scope of a run.
func (r *run) open(ctx context.Context) *Scope {
	sc := &Scope{s: r.s, run: r, values: ctx}
	sc.deadline.Store(noDeadline)
	return sc
}

// open makes a scope inside this one, and inside ctx.
func (parent *Scope) open(ctx context.Context) *Scope {
	sc := parent.run.open(ctx)
	sc.parent = parent
	sc.before = parent.last
	if sc.before != nil {
		sc.before.behind = sc
	} else {
		parent.first = sc
	}
	parent.last = sc
	sc.blame.Store(parent.blame.Load())
	return sc
}

// close ends the scope.
func (sc *Scope) close() {
	sc.closed = true
	sc.timer.Cancel()
	if p := sc.parent; p != nil {
		if sc.before != nil {
			sc.before.behind = sc.behind
		} else {
			p.first = sc.behind
		}
		if sc.behind != nil {
			sc.behind.before = sc.before
		} else {
			p.last = sc.before
		}
	}
	if sc.canceled == nil {
		// Contexts that were derived from it end with it.
		sc.ended = Canceled{Scope: sc, Cause: context.Canceled}
		sc.canceled = &sc.ended
	}
	if sc.blame.CompareAndSwap(nil, sc) {
		sc.outside.end(sc)
	}
}

// Cancel cancels the scope: everything that waits inside fails with a *Canceled.
// A nil cause is context.Canceled. Only the first call counts.
func (sc *Scope) Cancel(cause error) {
	sc.s.only("Scope.Cancel")
	if cause == nil {
		cause = context.Canceled
	}
	sc.cancel(&Canceled{Scope: sc, Cause: cause})
}

func (sc *Scope) cancel(err *Canceled) {
	if sc.canceled != nil || sc.closed {
		return
	}
	sc.canceled = err
	sc.timer.Cancel()
	if sc.parent == nil {
		sc.run.cancelled()
	}
	sc.settle()
}

// settle works out whom to blame from here on down, and ends the waits that are
// cancelled by it.
func (sc *Scope) settle() {
	var blamed *Scope
	if sc.parent != nil && !sc.shielded.Load() {
		blamed = sc.parent.blame.Load()
	}
	if blamed == nil && sc.canceled != nil {
		blamed = sc
	}
	if sc.blame.Load() == blamed {
		return
	}
	sc.blame.Store(blamed)
	if blamed != nil {
		sc.outside.end(blamed)
		for _, t := range sc.tasks.all() {
			t.cancelWait(blamed.canceled)
		}
	}
	for child := sc.first; child != nil; child = child.behind {
		child.settle()
	}
}

// reaches tells whether a cancellation of sc would be in force in inner too.
func (sc *Scope) reaches(inner *Scope) bool {
	for at := inner; at != nil; at = at.parent {
		if at == sc {
			return true
		}
		if at.shielded.Load() {
			return false
		}
	}
	return false
}

// Shield keeps cancellations from outside out of the scope, or lets them in
// again; one that has come meanwhile is then delivered at once.
func (sc *Scope) Shield(on bool) {
	sc.s.only("Scope.Shield")
	if sc.shielded.Load() != on {
		sc.shielded.Store(on)
		sc.settle()
	}
}

// SetDeadline cancels the scope at a time of the loop's clock (see Now); a time
// that has passed cancels it now. It replaces the deadline before.
func (sc *Scope) SetDeadline(when time.Duration) {
	sc.s.only("Scope.SetDeadline")
	sc.timer.Cancel()
	sc.deadline.Store(int64(when))
	if sc.canceled != nil || sc.closed {
		return
	}
	if when <= sc.s.l.Time() {
		sc.expire()
		return
	}
	sc.timer = sc.s.l.CallAt(when, sc.expire)
}

// ClearDeadline removes the deadline.
func (sc *Scope) ClearDeadline() {
	sc.s.only("Scope.ClearDeadline")
	sc.timer.Cancel()
	sc.deadline.Store(noDeadline)
}

func (sc *Scope) expire() {
	sc.cancel(&Canceled{Scope: sc, Cause: context.DeadlineExceeded, late: true})
}

// Caught tells whether the scope was cancelled and took its own cancellation
// back: code inside was cut short by it.
func (sc *Scope) Caught() bool { return sc.caught }

// absorb is what a scope makes of the error of the code inside it: what is left
// without its own cancellation.
func (sc *Scope) absorb(err error) error {
	if err == nil || sc.canceled == nil {
		return err
	}
	if onlyFrom(sc, err) {
		sc.caught = true
		return nil
	}
	several, ok := err.(*Errors)
	if !ok {
		return err
	}
	var left []error
	for _, err := range several.Errs {
		if err = sc.absorb(err); err != nil {
			left = append(left, err)
		}
	}
	if len(left) == len(several.Errs) {
		return err
	}
	return together(left)
}

// onlyFrom tells whether every leaf of err is a cancellation by sc.
func onlyFrom(sc *Scope, err error) bool {
	switch e := err.(type) {
	case *Canceled:
		return e.Scope == sc
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if !onlyFrom(sc, err) {
				return false
			}
		}
		return true
	case interface{ Unwrap() error }:
		inner := e.Unwrap()
		return inner != nil && onlyFrom(sc, inner)
	}
	return false
}

// within runs fn in a fresh scope in the calling task.
func within(ctx context.Context, op string, prepare func(*Scope), fn func(context.Context, *Scope) error) (*Scope, error) {
	t, parent := caller(ctx, op)
	unbind := func() {}
	if ctx != context.Context(parent) {
		parent, unbind = parent.bridge(ctx)
	}
	sc := parent.open(ctx)
	outer := t.scope
	t.enter(sc)
	defer func() {
		if t.scope != sc {
			panic("spindle: a scope was left while one inside it is open")
		}
		t.enter(outer)
		sc.close()
		unbind()
	}()
	prepare(sc)
	err := fn(sc, sc)
	return sc, sc.absorb(err)
}

// bridge stands for a context that the standard library derived from the scope:
// a scope that is cancelled with it. What is opened inside can be shielded from
// it, as from any other.
func (sc *Scope) bridge(ctx context.Context) (b *Scope, unbind func()) {
	b = sc.open(ctx)
	if ctx.Err() != nil {
		b.Cancel(context.Cause(ctx))
		return b, b.close
	}
	stop := sc.s.l.Kernel().AfterFunc(ctx, func() {
		sc.s.l.PostWith(loop.DropAtClose, func() { b.Cancel(context.Cause(ctx)) }) // a run that has ended needs it no more
	})
	return b, func() {
		stop()
		b.close()
	}
}

// WithScope runs fn in a scope of its own, which fn may cancel, shield or give a
// deadline. Its own cancellation ends at the scope: then WithScope returns nil
// and s.Caught is true.
func WithScope(ctx context.Context, fn func(ctx context.Context, s *Scope) error) error {
	_, err := within(ctx, "WithScope", func(*Scope) {}, fn)
	return err
}

// MoveOnAfter runs fn and gives up on it after d: then it returns true, and nil
// unless fn failed otherwise. An fn that is late but returns nil, because it did not
// wait or dropped the error of its wait, has succeeded: then it returns false.
func MoveOnAfter(ctx context.Context, d time.Duration, fn func(context.Context) error) (expired bool, err error) {
	sc, err := within(ctx, "MoveOnAfter", func(sc *Scope) { sc.SetDeadline(after(sc, d)) },
		func(ctx context.Context, _ *Scope) error { return fn(ctx) })
	return sc.caught, err
}

// ErrTimeout is FailAfter's error. To errors.Is it is context.DeadlineExceeded.
var ErrTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string        { return "spindle: timed out" }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }
func (timeoutError) Timeout() bool        { return true }
func (timeoutError) Temporary() bool      { return true } // as net.Error has it

// FailAfter runs fn and fails with ErrTimeout if that cuts it short after d: code
// that does not wait is not cut short. It is asyncio's wait_for and timeout.
func FailAfter(ctx context.Context, d time.Duration, fn func(context.Context) error) error {
	expired, err := MoveOnAfter(ctx, d, fn)
	return timedOut(expired, err)
}

// timedOut adds ErrTimeout to what fn has returned, if it was cut short.
func timedOut(expired bool, err error) error {
	switch {
	case !expired:
		return err
	case err == nil:
		return ErrTimeout
	}
	return errors.Join(ErrTimeout, err)
}

// Grace runs fn shielded from cancellation outside, for at most d: for cleaning
// up that has to wait. It fails with ErrTimeout if that cuts fn short.
func Grace(ctx context.Context, d time.Duration, fn func(context.Context) error) error {
	sc, err := within(ctx, "Grace", func(sc *Scope) {
		sc.Shield(true)
		sc.SetDeadline(after(sc, d))
	}, func(ctx context.Context, _ *Scope) error { return fn(ctx) })
	return timedOut(sc.caught, err)
}

// after is d from now, without overflow.
func after(sc *Scope, d time.Duration) time.Duration {
	now := sc.s.l.Time()
	if when := now + d; d < 0 || when >= now {
		return when
	}
	return noDeadline
}
