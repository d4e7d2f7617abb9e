package spindle

import (
	"context"
	"errors"
	"reflect"
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
