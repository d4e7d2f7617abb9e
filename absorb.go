package spindle

import (
	"errors"
	"reflect"
)

// absorb returns what is left of err, the error of the code inside a scope, without
// the scope's own cancellation. It goes into joined errors (an *Errors, or what
// errors.Join returned) and keeps the order of what is left. An error that wraps
// others in words of its own is taken out only if all of them are the scope's.
func (sc *Scope) absorb(err error) error {
	if err == nil || sc.canceled == nil {
		return err
	}
	left, taken := sc.takeOwn(err)
	sc.caught = sc.caught || taken
	return left
}

// takeOwn returns what is left of err and reports whether anything was taken out.
func (sc *Scope) takeOwn(err error) (left error, taken bool) {
	if onlyFrom(sc, err) {
		return nil, true
	}
	errs, join := parts(err)
	if join == nil {
		return err, false
	}
	var rest []error
	for _, err := range errs {
		l, t := sc.takeOwn(err)
		taken = taken || t
		if l != nil {
			rest = append(rest, l)
		}
	}
	if !taken {
		return err, false
	}
	return join(rest), true
}

// parts returns the errors that err joins and the function that joins such errors,
// which is nil if err is not such a join.
func parts(err error) ([]error, func([]error) error) {
	switch e := err.(type) {
	case *Errors:
		return e.Errs, together
	case interface{ Unwrap() []error }:
		if reflect.TypeOf(err) == joined {
			return e.Unwrap(), joinAgain
		}
	}
	return nil, nil
}

// joined is the type of what errors.Join returns.
var joined = reflect.TypeOf(errors.Join(errors.New("")))

// joinAgain is errors.Join, which leaves a single error as it is.
func joinAgain(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// onlyFrom reports whether err has leaves and every one is a cancellation by sc. A panic
// is none, whatever its value is.
func onlyFrom(sc *Scope, err error) bool {
	switch e := err.(type) {
	case *PanicError:
		return false
	case *Canceled:
		return e.Scope == sc
	case interface{ Unwrap() []error }:
		errs := e.Unwrap()
		for _, err := range errs {
			if !onlyFrom(sc, err) {
				return false
			}
		}
		return len(errs) > 0
	case interface{ Unwrap() error }:
		inner := e.Unwrap()
		return inner != nil && onlyFrom(sc, inner)
	}
	return false
}
