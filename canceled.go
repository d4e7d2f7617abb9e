package spindle

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"time"
)

// Canceled is the error of a wait that ended because a scope was cancelled. For errors.Is
// it equals context.Canceled, or context.DeadlineExceeded if a deadline had passed. It
// wraps the cause.
type Canceled struct {
	Scope *Scope
	Cause error // context.Canceled, context.DeadlineExceeded, or the argument of Cancel
	late  bool
}

func (e *Canceled) Error() string {
	text := "spindle: cancelled"
	if e.late {
		text = "spindle: deadline exceeded"
	}
	if e.Cause != e.kind() {
		text += ": " + e.Cause.Error()
	}
	return text
}

// kind returns the error of a context that ended for the same reason.
func (e *Canceled) kind() error {
	if e.late {
		return context.DeadlineExceeded
	}
	return context.Canceled
}

// Is reports whether target is context.DeadlineExceeded, if a deadline had passed, or
// context.Canceled otherwise.
func (e *Canceled) Is(target error) bool { return target == e.kind() }

// Unwrap returns the cause.
func (e *Canceled) Unwrap() error { return e.Cause }

// Timeout reports whether a deadline had passed, as for net.Error.
func (e *Canceled) Timeout() bool { return e.late }

// absorb removes the scope's own cancellation from err, the error of the code inside the
// scope, and returns the rest. It looks into joined errors (an *Errors, or the result of
// errors.Join) and keeps the order of the others. An error that wraps others with a text
// of its own is removed only if all of them are the scope's cancellation.
func (sc *Scope) absorb(err error) error {
	if err == nil || sc.canceled == nil {
		return err
	}
	rest, removed := sc.removeOwn(err)
	sc.caught = sc.caught || removed
	return rest
}

// removeOwn returns the rest of err and reports whether it has removed anything.
func (sc *Scope) removeOwn(err error) (rest error, removed bool) {
	if isOnly(sc, err) {
		return nil, true
	}
	errs, join := splitJoined(err)
	if join == nil {
		return err, false
	}
	var others []error
	for _, err := range errs {
		r, did := sc.removeOwn(err)
		removed = removed || did
		if r != nil {
			others = append(others, r)
		}
	}
	if !removed {
		return err, false
	}
	return join(others), true
}

// splitJoined returns the errors that err joins, and the function that joins such errors.
// The function is nil if err is not a joined error.
func splitJoined(err error) ([]error, func([]error) error) {
	switch e := err.(type) {
	case *Errors:
		return e.Errs, joinErrors
	case interface{ Unwrap() []error }:
		if reflect.TypeOf(err) == standardJoin {
			return e.Unwrap(), joinStandard
		}
	}
	return nil, nil
}

// standardJoin is the type of the results of errors.Join.
var standardJoin = reflect.TypeOf(errors.Join(errors.New("")))

// joinStandard is errors.Join, but returns a single error as it is.
func joinStandard(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// isOnly reports whether err has leaves and each of them is the cancellation of sc. A
// panic is not, whatever its value.
func isOnly(sc *Scope, err error) bool {
	switch e := err.(type) {
	case *PanicError:
		return false
	case *Canceled:
		return e.Scope == sc
	case interface{ Unwrap() []error }:
		errs := e.Unwrap()
		for _, err := range errs {
			if !isOnly(sc, err) {
				return false
			}
		}
		return len(errs) > 0
	case interface{ Unwrap() error }:
		inner := e.Unwrap()
		return inner != nil && isOnly(sc, inner)
	}
	return false
}

// isCancellation reports whether each leaf of err is a cancellation, by any scope or
// context.
func isCancellation(err error) bool {
	switch e := err.(type) {
	case *Canceled:
		return true
	case *PanicError:
		return false
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if !isCancellation(err) {
				return false
			}
		}
		return true
	case interface{ Unwrap() error }:
		return isCancellation(e.Unwrap())
	}
	return err == context.Canceled
}

// check begins a wait: it fails if the wait is cancelled before it begins.
func (t *Task) check(ctx context.Context, scope *Scope) error {
	if t.mustExit {
		runtime.Goexit() // its deferred calls run
	}
	t.co.CheckThread()
	by := t.scope.canceledBy
	if by == nil && scope != t.scope {
		by = scope.canceledBy
	}
	var err error
	switch {
	case by != nil:
		err = by.canceled
	case ctx != context.Context(scope) && ctx.Err() != nil && !scope.endsWith(ctx):
		err = context.Cause(ctx)
	default:
		t.ignored = 0
		t.co.SetCheck(false)
		if ctx != context.Context(t.scope) {
			t.co.BindNext()
		}
		return nil
	}
	t.delayCancelled()
	return err
}

// cancelWait ends the task's wait with err if the wait can still be aborted. It reports
// whether it did. The next wait begins with a check in any case.
func (t *Task) cancelWait(err error) bool {
	if t.co == nil {
		return false
	}
	t.co.SetCheck(true)
	return t.co.Abort(err)
}

// mustCheck makes the next wait of the task begin with a check.
func (t *Task) mustCheck() {
	if t.co != nil {
		t.co.SetCheck(true)
	}
}

// cancelledBy ends the task's wait because of a cancelled scope.
func (t *Task) cancelledBy(by *Scope) {
	why := by.canceled
	if t.co == nil {
		t.nursery.cancelHeld(t, why)
		return
	}
	if t.cancelWait(why) && why.late {
		why.Scope.interrupted = why.Scope.interrupted.add(t)
	}
}

// Bind makes the task's wait end also with a context that is not the task's own scope:
// another scope, or one that the standard library derived from a scope. A scope around
// the task's reaches it anyway.
func (b *body) Bind(ctx context.Context) {
	t := (*Task)(b)
	if ctx == context.Context(t.scope) {
		return
	}
	scope := scopeOf(ctx)
	own := scope.endsWith(ctx)
	if own && scope.reaches(t.scope) {
		return
	}
	wait := t.co.Waker()
	end := func() {
		switch by := scope.canceledBy; {
		case !wait.Waiting():
		case by != nil:
			t.cancelledBy(by)
		default:
			t.cancelWait(context.Cause(ctx))
		}
	}
	if own {
		bound := scope.bound.add(end)
		t.co.AfterWait(func() { bound.stop() })
		return
	}
	l := scope.s.l
	stop := l.Internal().AfterFunc(ctx, end) // a run that has ended does not need it
	t.co.AfterWait(func() { stop() })
}

// afterUncancelled follows a wait that cancellation does not end. Code that continues
// after a cancellation is treated as after any other wait.
func (t *Task) afterUncancelled(outer *Scope) {
	if t.mustExit {
		runtime.Goexit()
	}
	if outer.canceledBy != nil {
		t.delayCancelled()
	}
}

// delayCancelled lets other tasks run before a cancelled wait returns. Code that ignores
// cancellation waits again at once. It is slowed down, so that it does not use all of a
// core, and the first time it is logged.
func (t *Task) delayCancelled() {
	t.co.SetCheck(true) // which resets ignored
	if t.ignored < 255 {
		t.ignored++
	}
	if t.ignored <= freeCancelled {
		t.co.Yield()
		return
	}
	if !t.slowed {
		t.slowed = true
		t.nursery.scope.run.o.log().Warn("spindle: a task ignores its cancellation; from now on its cancelled waits take longer",
			"task", t.Name(), "function", t.place(), "cancelled waits", t.ignored, "each takes", cancelledDelay)
	}
	w := t.waits()
	w.timer = t.scope.s.l.CallLater(cancelledDelay, w.alarm())
	t.wait("cancelled wait", unabortable{})
}

const (
	freeCancelled  = 16                    // cancelled waits in a row that are not slowed down: for cleaning up
	cancelledDelay = 10 * time.Millisecond // of each further one
)

// unabortable is for waits that cancellation does not end.
type unabortable struct{}

func (unabortable) Abort() bool { return false }
