package spindle

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/loop"
)

// ErrNoTask is the reason for which a call fails if its context does not come from a task.
var ErrNoTask = errors.New("spindle: the context does not come from a task")

// Errors are the errors of several tasks of one nursery, in the order in which the tasks
// failed.
type Errors struct{ Errs []error }

func (e *Errors) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "spindle: %d tasks failed:", len(e.Errs))
	for _, err := range e.Errs {
		b.WriteString("\n- " + strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	return b.String()
}

// Unwrap returns the errors.
func (e *Errors) Unwrap() []error { return e.Errs }

// joinErrors returns several errors as one.
func joinErrors(errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return &Errors{errs}
}

// PanicError is a panic in a task.
type PanicError = loop.PanicError

// asPanic returns a recovered value as a PanicError. The value may be one already.
func asPanic(v any) *PanicError {
	if p, ok := v.(*PanicError); ok {
		return p
	}
	return &PanicError{Value: v, Stack: debug.Stack()}
}

// withError returns a panic that also reports err, which may be nil.
func withError(p *PanicError, err error) *PanicError {
	if err == nil {
		return p
	}
	both := *p
	if both.Also != nil {
		err = errors.Join(both.Also, err)
	}
	both.Also = err
	return &both
}

// loopError reports that the loop failed, and which tasks there were.
type loopError struct {
	err  error
	tree Tree
}

func (e *loopError) Error() string {
	text := e.err.Error()
	if p, ok := e.err.(*PanicError); ok {
		text += "\n\n" + string(p.Stack)
	}
	return text + "\n" + e.tree.String()
}

// Unwrap returns the loop's error.
func (e *loopError) Unwrap() error { return e.err }

// ErrStragglers is wrapped by an error that names tasks which ignored their cancellation and were
// made to exit.
var ErrStragglers = errors.New("spindle: tasks did not end when cancelled")

// madeToExit returns ErrStragglers with the names of the tasks.
func madeToExit(tasks []string) error { return fmt.Errorf("%w: %q", ErrStragglers, tasks) }

// notInTask returns the panic message for op when its context does not belong to a task.
func notInTask(op string) string {
	return "spindle: " + calledName(op) + " with a context that does not come from a task;" +
		" pass on the ctx of the task that calls it, or call it in spindle.Run;" +
		" an HTTP handler is a task only if it is marked with web.Inline and served by web.Server"
}

// calledName returns the name of the exported function of the library through which the
// user's code has reached op: the user has called stream.Dial, not the LoopOf inside it.
func calledName(op string) string {
	module := reflect.TypeFor[Scope]().PkgPath()
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		if !goid.OfLibrary(frame.Function) {
			return op
		}
		// ".Sleep", "/stream.(*Dialer).Dial", "/cosync.(*Queue[...]).Get.func1"
		name, _, _ := strings.Cut(frame.Function[len(module)+1:], ".func")
		if isExported(name) {
			op = strings.NewReplacer("(*", "", ")", "", "[...]", "").Replace(name)
		}
		if !more {
			return op
		}
	}
}

// isExported reports whether users can call the function of this name: its last part and
// its receiver are exported, and its package is not internal.
func isExported(name string) bool {
	upper := func(c byte) bool { return 'A' <= c && c <= 'Z' }
	if _, receiver, ok := strings.Cut(name, "(*"); ok && !upper(receiver[0]) {
		return false
	}
	last := strings.LastIndexByte(strings.TrimSuffix(name, "[...]"), '.')
	return upper(name[last+1]) && !strings.HasPrefix(name, "internal/")
}
