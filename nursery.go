package spindle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/loop"
)

// Nursery owns the tasks started in it: the block that opened it does not end
// before they have. The first failure cancels the others.
type Nursery struct {
	s       *sched
	scope   *Scope
	owner   *Task   // who opened it; nil for a run's
	running int     // children, and the body until it has returned
	opener  *Task   // waits for the children once the body has returned
	done    func()  // called when the last has ended, where no task waits
	errs    []error // in the order they came
	fault   *PanicError
	alone   func(error) // told of tasks that fail; nil if they fail the nursery
	limit   *limit      // nil for none
	closed  bool
}

// WithNursery opens a nursery, runs fn in it, and waits for all its tasks. If fn
// or a task fails, the others are cancelled; several errors are joined. If one
// panics, the others are cancelled and WithNursery panics with a *PanicError.
func WithNursery(ctx context.Context, fn func(ctx context.Context, n *Nursery) error) error {
	t, scope := caller(ctx, "WithNursery")
	t.co.CheckThread() // where it is opened it is also joined
	n := &Nursery{s: scope.s, owner: t, running: 1}
	_, err := within(ctx, "WithNursery", (*Scope).open, func(ctx context.Context, sc *Scope) error {
		n.scope = sc
		n.body(t, ctx, fn)
		return n.result()
	})
	return err
}

// body runs fn and waits for the children, also if fn panics.
func (n *Nursery) body(t *Task, ctx context.Context, fn func(context.Context, *Nursery) error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			n.failed(caught(v))
		} else {
			n.scope.Cancel(nil) // Goexit: the task is ending, and so must its children
		}
		n.join(t)
	}()
	err := fn(ctx, n)
	returned = true
	n.failed(err)
	n.join(t)
}

// join waits until every child has finished. Cancellation does not end it: it
// ends the children.
func (n *Nursery) join(t *Task) {
	n.running--
	for n.running > 0 { // until its turn comes, a callback may start one more
		if t.co.HoldsThread() {
			t.co.RestoreThread()
			n.failed(caught(coro.ThreadChanged))
		}
		n.opener = t
		t.wait("nursery", unabortable{})
	}
	n.closed = true
	t.afterUncancelled(n.scope.parent)
}

// failed takes note of a child's or the body's end.
func (n *Nursery) failed(err error) {
	if err == nil {
		return
	}
	if p, ok := err.(*PanicError); ok && n.fault == nil {
		n.fault = p
	}
	n.errs = append(n.errs, err)
	n.scope.Cancel(nil)
}

// result joins the errors, without the cancellations by which the nursery ended
// its own tasks. If a task panicked, so does result.
func (n *Nursery) result() error {
	fault, err := n.outcome()
	if fault != nil {
		panic(besides(fault, err))
	}
	return err
}

// outcome is result that returns the panic.
func (n *Nursery) outcome() (fault *PanicError, err error) {
	var left []error
	for _, err := range n.errs {
		if err == error(n.fault) {
			continue
		}
		if err = n.scope.absorb(err); err != nil {
			left = append(left, err)
		}
	}
	return n.fault, together(left)
}

// besides returns a panic that tells of another failure too.
func besides(fault *PanicError, err error) *PanicError {
	if err == nil {
		return fault
	}
	both := *fault
	if both.Also != nil {
		err = errors.Join(both.Also, err)
	}
	both.Also = err
	return &both
}

// together returns several errors as one.
func together(errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return &Errors{errs}
}

// Errors are several errors of one nursery, in the order they came.
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

// PanicError is a panic in a task.
type PanicError = loop.PanicError

// caught makes a PanicError of a recovered value, unless it is one.
func caught(v any) *PanicError {
	if p, ok := v.(*PanicError); ok {
		return p
	}
	return &PanicError{Value: v, Stack: debug.Stack()}
}

// Scope is the scope that the nursery's tasks are in: cancel it to end them all.
func (n *Nursery) Scope() *Scope { return n.scope }

// OnFailure makes the nursery's tasks independent: if one fails, panics or calls
// runtime.Goexit, fn is called on the loop with its error, a *PanicError for the latter
// two, and the others go on. The nursery does not fail then. A task that ends because
// the nursery was cancelled has not failed. It is for servers; set it before the first
// task starts.
func (n *Nursery) OnFailure(fn func(err error)) {
	if fn == nil {
		panic("spindle: Nursery.OnFailure with a nil function")
	}
	n.s.only("Nursery.OnFailure")
	n.alone = fn
}

// Ended tells whether the nursery has ended: then it takes no more tasks.
func (n *Nursery) Ended() bool { return n.closed }

// Go starts fn as a task of the nursery. It may be called by any task or
// callback of the loop while the nursery is open.
func (n *Nursery) Go(fn func(ctx context.Context) error) { n.GoWith(TaskOptions{}, fn) }

// TaskOptions are what a task can be given besides its function.
type TaskOptions struct {
	Name     string        // shown in the tree
	Priority loop.Priority // its lane in the loop

	// Eager has it begin at once: Go returns when it has first waited, or
	// ended. It saves the way through the loop where a task often need not
	// wait. It is asyncio's eager start.
	Eager bool

	// Values gives the task a scope of its own inside the nursery's, to be
	// cancelled alone: its ctx is a *Scope, which looks values up in Values, and
	// takes its own cancellation out of the task's error. Nil leaves the task in
	// the nursery's scope. If Values has a method TaskName() string and Name is
	// empty, that names the task: it is called only when the name is needed.
	Values context.Context

	own  *Scope  // the task's own scope, where the caller of start has opened it
	code uintptr // of the function that the user knows the task by; 0 for fn's own
}

// check panics if the options are not valid.
func (o *TaskOptions) check(op string) {
	if o.Priority > loop.Low {
		panic("spindle: " + op + " with an unknown priority")
	}
}

// GoWith is Go with options.
func (n *Nursery) GoWith(o TaskOptions, fn func(ctx context.Context) error) {
	if fn == nil {
		panic("spindle: Nursery.Go with a nil function")
	}
	o.check("Nursery.GoWith")
	n.start(o, fn)
}

// start starts fn as a task.
func (n *Nursery) start(o TaskOptions, fn func(context.Context) error) *Task {
	n.s.only("Nursery.Go")
	if n.closed {
		panic("spindle: Nursery.Go on a nursery that has ended")
	}
	if o.Eager {
		n.s.core.CheckBegin()
	}
	n.s.started++
	n.running++
	t := n.s.task()
	t.fn, t.code, t.name = fn, o.code, o.Name
	t.nursery, t.id = n, n.s.started
	t.own, t.scope = o.own, n.scope
	if o.own == nil && o.Values != nil {
		t.own = n.scope.open(o.Values)
	}
	if t.own != nil {
		t.scope = t.own
	}
	t.scope.tasks.push(&t.inScope, t)
	if traced := n.scope.run.traced; traced != nil {
		traced.add(t)
	}
	if n.limit != nil {
		if n.holds() {
			n.limit.held = append(n.limit.held, heldTask{t, o.Priority})
			return t
		}
		n.limit.running++
	}
	n.s.start(t, o.Priority, o.Eager)
	return t
}

// cancelled reports whether err is the cancellation of the nursery, or of a scope around
// it, and nothing else.
func (n *Nursery) cancelled(err error) bool {
	var c *Canceled
	return errors.As(err, &c) && onlyFrom(c.Scope, err) && c.Scope.reaches(n.scope)
}

// finish is the end of a task.
func (t *Task) finish(err error) {
	t.inScope.remove()
	if traced := t.nursery.scope.run.traced; traced != nil {
		delete(traced, t)
	}
	if t.own != nil {
		err = t.own.absorb(err)
		t.own.close()
	}
	n := t.nursery
	if n.limit != nil {
		n.limit.running--
		n.beginHeld()
	}
	switch {
	case err == nil:
	case n.alone != nil && !n.cancelled(err):
		n.alone(err)
	default:
		n.failed(err)
	}
	if n.running--; n.running > 0 {
		return
	}
	switch {
	case n.opener != nil:
		n.opener.wake(nil)
		n.opener = nil
	case n.done != nil:
		n.closed = true // nobody would wait for one more
		n.done()
	}
}
