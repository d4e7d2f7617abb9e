package spindle

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// Scope is a region of code that can be cancelled: all waits inside it, in any task. It is
// the context that tasks are called with and pass on.
//
// Cancellation is level-triggered: once a scope is cancelled, every wait inside it fails
// until the code has left the scope. The error is a *Canceled that names the scope, and a
// scope absorbs only its own cancellation.
//
// Methods that change a scope are for tasks and callbacks of its loop. The methods of
// context.Context are for any goroutine.
type Scope struct {
	s      *sched
	run    *run
	parent *Scope          // nil for the outermost of a run
	values context.Context // the context it was opened with; Value looks there

	// canceledBy is the scope that cancels the waits inside: the outermost cancelled
	// scope around them, or this one, that no shield keeps out. It is nil if there is
	// none. A shield resets it. Loop goroutine only.
	canceledBy *Scope

	// Loop goroutine only.
	canceled    *Canceled // the error of this scope's own cancellation, once cancelled
	ended       Canceled  // what canceled points to if the scope ended without one
	timer       loop.Timer
	tasks       taskList          // in it and in no scope inside
	bound       callbacks         // end waits of tasks elsewhere that were given this scope
	interrupted *interruptedWaits // the waits that its deadline has cancelled
	closed      bool
	caught      bool

	// The scopes directly inside, oldest first, and the siblings before and behind
	// this one. Loop goroutine only.
	first, last, before, behind *Scope

	// Written on the loop, read by any goroutine.
	shielded atomic.Bool
	deadline atomic.Int64 // on the loop's clock; noDeadline for none

	// The scope as a context; see context.go.
	contextState contextState
}

const noDeadline = math.MaxInt64

// scopeKey is the key for which the Value of a scope is the scope itself.
type scopeKey struct{}

// ScopeOf returns the innermost scope of ctx: that of the task ctx comes from, or of
// a WithScope in it. It returns nil if ctx does not come from a task. It may be
// called from any goroutine; the scope's own methods say where they may be called.
func ScopeOf(ctx context.Context) *Scope { return scopeOf(ctx) }

func scopeOf(ctx context.Context) *Scope {
	if s, ok := ctx.(*Scope); ok {
		return s
	}
	if ctx == nil {
		return nil
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

// open makes a scope inside this one that looks values up in ctx. Inside a cancelled scope
// it is cancelled from the start.
func (parent *Scope) open(ctx context.Context) *Scope {
	sc := parent.link(ctx)
	sc.canceledBy = parent.canceledBy
	if why := parent.contextState.why.Load(); why != nil {
		sc.contextState.why.Store(why)
	}
	return sc
}

// openShielded makes a scope inside this one that is shielded from the start.
func (parent *Scope) openShielded(ctx context.Context) *Scope {
	sc := parent.link(ctx)
	sc.shielded.Store(true)
	return sc
}

// link makes a scope and puts it last among the scopes inside this one.
func (parent *Scope) link(ctx context.Context) *Scope {
	sc := parent.run.open(ctx)
	sc.parent = parent
	sc.before = parent.last
	if sc.before != nil {
		sc.before.behind = sc
	} else {
		parent.first = sc
	}
	parent.last = sc
	return sc
}

// unlink removes the scope from the list of its parent.
func (sc *Scope) unlink() {
	p := sc.parent
	if p == nil {
		return
	}
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

// close ends the scope, and with it the contexts derived from it. A scope inside it can
// still be open, if another task has opened that one.
func (sc *Scope) close() {
	sc.closed = true
	sc.timer.Cancel()
	sc.unlink()
	if sc.canceled == nil {
		sc.ended = Canceled{Scope: sc, Cause: context.Canceled}
		sc.canceled = &sc.ended
	}
	if sc.canceledBy == nil {
		sc.canceledBy = sc
		for _, t := range sc.tasks.all() {
			t.mustCheck()
		}
		sc.end(sc.canceled)
		sc.endBound()
		for child := sc.first; child != nil; child = child.behind {
			child.settle()
		}
	}
}

// Cancel cancels the scope: every wait inside it fails with a *Canceled. A nil cause means
// context.Canceled. Only the first call has an effect.
func (sc *Scope) Cancel(cause error) {
	sc.s.only("Scope.Cancel")
	if sc.canceled != nil || sc.closed {
		return
	}
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

// cancelWith cancels the scope because ctx has ended.
func (sc *Scope) cancelWith(ctx context.Context) {
	sc.cancel(&Canceled{Scope: sc, Cause: context.Cause(ctx), late: ctx.Err() == context.DeadlineExceeded})
}

// settle computes canceledBy of this scope and of those inside, and ends the contexts and
// the waits that are cancelled now.
func (sc *Scope) settle() {
	var by *Scope
	if sc.parent != nil && !sc.shielded.Load() {
		by = sc.parent.canceledBy
		if why := sc.parent.contextState.why.Load(); why != nil {
			sc.end(why)
		}
	}
	if by == nil && sc.canceled != nil {
		by = sc
	}
	if sc.canceledBy == by {
		return
	}
	sc.canceledBy = by
	if by != nil {
		sc.end(by.canceled)
		for _, t := range sc.tasks.all() {
			t.cancelledBy(by)
		}
		sc.endBound()
	}
	for child := sc.first; child != nil; child = child.behind {
		child.settle()
	}
}

// end ends the scope as a context, and the contexts of the scopes inside that are not
// shielded. Only the first call has an effect: a context cannot be cancelled twice, and
// never becomes uncancelled.
func (sc *Scope) end(why *Canceled) {
	if !sc.contextState.end(why) {
		return
	}
	for child := sc.first; child != nil; child = child.behind {
		if !child.shielded.Load() {
			child.end(why)
		}
	}
}

// endBound ends the waits of tasks elsewhere that were given this scope.
func (sc *Scope) endBound() {
	for _, c := range sc.bound.take() {
		c.fn()
	}
}

// reaches reports whether a cancellation of sc would be in force in inner too.
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

// SetShield sets whether cancellations of the scopes around this one are kept out. When a
// shield is removed, a cancellation that it has kept out takes effect at once.
//
// If a shield is set after a cancellation, waits in the scope succeed again, but as a
// context the scope stays cancelled: Err stays set and Done closed. To clean up with a
// context that is not cancelled, use the functions Grace and Shield.
func (sc *Scope) SetShield(on bool) {
	sc.s.only("Scope.SetShield")
	if sc.shielded.Load() != on {
		sc.shielded.Store(on)
		sc.settle()
	}
}

// SetDeadline sets the time at which the scope is cancelled, and replaces an earlier
// deadline of the scope. A time that has passed cancels the scope at once. The zero time
// removes the deadline. See Now for the clock.
func (sc *Scope) SetDeadline(when time.Time) {
	sc.s.only("Scope.SetDeadline")
	if when.IsZero() {
		sc.setDeadline(noDeadline)
		return
	}
	sc.setDeadline(sinceStart(sc.s.l, when))
}

// setDeadline is SetDeadline with a time of the loop's clock.
func (sc *Scope) setDeadline(when time.Duration) {
	sc.timer.Cancel()
	sc.deadline.Store(int64(when))
	switch {
	case sc.canceled != nil || sc.closed || when == noDeadline:
	case when <= sc.s.l.Time():
		sc.expire()
	default:
		sc.timer = sc.s.l.CallAt(when, sc.expire)
	}
}

func (sc *Scope) expire() {
	sc.cancel(&Canceled{Scope: sc, Cause: context.DeadlineExceeded, late: true})
}

// Caught reports whether the scope was cancelled and has absorbed its own cancellation:
// the code inside did not finish.
func (sc *Scope) Caught() bool { return sc.caught }

// openFunc is (*Scope).open or (*Scope).openShielded.
type openFunc func(parent *Scope, ctx context.Context) *Scope

// within runs fn in a new scope in the calling task.
func within(ctx context.Context, op string, open openFunc, fn func(context.Context, *Scope) error) (*Scope, error) {
	t, scope := caller(ctx, op)
	parent, unbind := t.scope, func() {}
	switch {
	case scope.reaches(parent):
	case scope.run != parent.run: // the task stays among those of its own run, which ends it
		parent, unbind = parent.openWith(scope)
	default:
		parent, unbind = scope.openWith(parent)
	}
	if !scope.endsWith(ctx) {
		outer := unbind
		b, unbridge := parent.bridge(ctx, scope)
		parent, unbind = b, func() {
			unbridge()
			outer()
		}
	}
	sc := open(parent, ctx)
	outer := t.scope
	t.enter(sc)
	defer func() {
		if t.scope != sc {
			panic("spindle: a scope was left while one inside it is open")
		}
		if t.own != nil && outer == t.nursery.scope {
			outer = t.own // the task was isolated meanwhile
		}
		t.enter(outer)
		if outer.canceledBy == nil {
			t.ignored = 0 // the cancelled waits were those of scopes that the task has left
		}
		if sc.shielded.Load() {
			t.leaveShield()
		}
		sc.close()
		unbind()
	}()
	err := fn(sc, sc)
	return sc, sc.absorb(err)
}

// openWith opens a scope inside sc that is also cancelled with other. It is for a task in
// one of them that uses a context of the other.
func (sc *Scope) openWith(other *Scope) (b *Scope, unbind func()) {
	b = sc.open(sc)
	if other.canceledBy != nil {
		b.cancel(other.canceledBy.canceled)
		return b, b.close
	}
	bound := other.bound.add(func() { b.cancel(other.canceledBy.canceled) })
	return b, func() {
		bound.stop()
		b.close()
	}
}

// bridge opens a scope inside sc that represents ctx, a standard context derived from the
// scope from: it is cancelled with ctx, and has its deadline. A scope inside can be
// shielded from it, as from any other.
func (sc *Scope) bridge(ctx context.Context, from *Scope) (b *Scope, unbind func()) {
	b = sc.open(ctx)
	// Equal deadlines mean that ctx has none of its own and reports that of from,
	// which can still move.
	when, ok := ctx.Deadline()
	if outer, _ := from.Deadline(); ok && !when.Equal(outer) {
		b.deadline.Store(int64(sinceStart(sc.s.l, when)))
	}
	if ctx.Err() != nil {
		b.cancelWith(ctx)
		return b, b.close
	}
	stop := sc.s.l.Internal().AfterFunc(ctx, func() { b.cancelWith(ctx) }) // a run that has ended does not need it
	return b, func() {
		stop()
		b.close()
	}
}

// WithScope runs fn in a new scope, which fn may cancel, shield or give a deadline. The
// scope absorbs its own cancellation: WithScope returns nil then, and s.Caught reports
// true.
func WithScope(ctx context.Context, fn func(ctx context.Context, s *Scope) error) error {
	_, err := within(ctx, "WithScope", (*Scope).open, fn)
	return err
}
