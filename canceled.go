package spindle

import "context"

// Canceled is the error of a wait that ended because a scope was cancelled. To
// errors.Is it is context.Canceled, or context.DeadlineExceeded if a deadline
// had passed; it wraps the cause.
type Canceled struct {
	Scope *Scope
	Cause error // context.Canceled, context.DeadlineExceeded, or what Cancel was given
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

// kind returns the error that a context has for such a cancellation.
func (e *Canceled) kind() error {
	if e.late {
		return context.DeadlineExceeded
	}
	return context.Canceled
}

// Is reports whether target is the kind of cancellation it was.
func (e *Canceled) Is(target error) bool { return target == e.kind() }

// Unwrap returns the cause.
func (e *Canceled) Unwrap() error { return e.Cause }

// Timeout is true for a deadline, as net.Error has it.
func (e *Canceled) Timeout() bool { return e.late }
