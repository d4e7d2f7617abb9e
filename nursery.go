package spindle

import (
	"context"
	"errors"

	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/loop"
)

// Nursery owns tasks: the call that opened it does not return before all of them have
// ended. If a task fails, the others are cancelled.
type Nursery struct {
	s         *sched
	scope     *Scope
	owner     *Task   // opened the nursery; nil for that of a run
	running   int     // children, and the body until it has returned
	joining   *Task   // waits for the children once the body has returned
	done      func()  // called when the last has ended, where no task waits
	errs      []error // in the order they came
	fault     *PanicError
	onFailure func(error) // called when a task fails; nil if that fails the nursery
	limit     *limit      // nil for none
	closed    bool
}

// WithNursery opens a nursery, calls fn with it, and waits for all its tasks. If fn or a
// task fails, the others are cancelled. Several errors are returned as an *Errors. If one
// panics, the others are cancelled, and WithNursery panics with a *PanicError.
//
// The deferred calls of fn run when fn returns, and tasks may still be running then. What
// the tasks use is opened and closed outside of the nursery:
//
//	defer bus.Close()
//	return spindle.WithNursery(ctx, …)
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

// body runs fn and waits for the children, even if fn panics.
func (n *Nursery) body(t *Task, ctx context.Context, fn func(context.Context, *Nursery) error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			n.panicked(asPanic(v))
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

// join waits until every child has ended. Cancellation does not end this wait, but it ends
// the children.
func (n *Nursery) join(t *Task) {
	n.running--
	for n.running > 0 { // until its turn comes, a callback may start one more
		if t.co.HoldsThread() {
			t.co.RestoreThread()
			n.panicked(asPanic(coro.ThreadChanged))
		}
		n.joining = t
		t.wait("nursery", unabortable{})
	}
	n.closed = true
	t.afterUncancelled(n.scope.parent)
}

// failed records the error of a child or of the body, which may be nil.
func (n *Nursery) failed(err error) {
	if err == nil {
		return
	}
	if c := n.scope.canceled; c != nil && err == error(c) {
		n.scope.caught = true // not worth a place in errs: a cancelled nursery may have many tasks
		return
	}
	n.errs = append(n.errs, err)
	n.scope.Cancel(nil)
}

// panicked records the panic of a child or of the body.
func (n *Nursery) panicked(p *PanicError) {
	if n.fault == nil {
		n.fault = p
	}
	n.failed(p)
}

// childFailed is childEnded for a task with an error that is for the handler of OnFailure.
// If the handler panics, or calls runtime.Goexit, the nursery fails as if a task had.
func (n *Nursery) childFailed(err error) {
	defer n.childEnded()
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		if v == nil {
			v = loop.ErrGoexit
		}
		n.panicked(asPanic(v))
	}()
	n.onFailure(err)
	returned = true
}

// result joins the errors, without the cancellation by which the nursery ended its own
// tasks. It panics if a task did.
func (n *Nursery) result() error {
	fault, err := n.outcome()
	if fault != nil {
		panic(withError(fault, err))
	}
	return err
}

// outcome is result, but returns the panic.
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
	return n.fault, joinErrors(left)
}

// Scope returns the scope of the nursery's tasks. Cancel it to end them all.
func (n *Nursery) Scope() *Scope { return n.scope }

// OnFailure makes the nursery's tasks independent of each other. If a task fails, the loop
// calls fn with its error, and neither the nursery nor another task fails. If a task panics
// or calls runtime.Goexit, the error is a *PanicError. A task that ends because the nursery
// was cancelled has not failed. A panic in fn fails the nursery. OnFailure is for servers.
// Call it before the first task starts.
func (n *Nursery) OnFailure(fn func(err error)) {
	if fn == nil {
		panic("spindle: Nursery.OnFailure with a nil function")
	}
	n.s.only("Nursery.OnFailure")
	n.onFailure = fn
}

// Ended reports whether the nursery has ended. Then no more tasks can be started.
func (n *Nursery) Ended() bool { return n.closed }

// Go starts fn as a task of the nursery, and returns before fn begins. Any task or callback
// of the loop may call it while the nursery is open.
func (n *Nursery) Go(fn func(ctx context.Context) error) { n.GoWith(TaskOptions{}, fn) }

// TaskOptions configure a task.
type TaskOptions struct {
	Name     string        // shown in the tree; "" means the name of the function
	Priority loop.Priority // its lane in the loop

	// Eager makes the task begin at once: Go returns when the task first waits or
	// ends. It saves a turn of the loop where a task often need not wait. It is
	// asyncio's eager start.
	Eager bool

	// Values gives the task a scope of its own inside the nursery's, so that it
	// can be cancelled alone. The ctx of the task is that *Scope. It looks values
	// up in Values, and absorbs its own cancellation. Nil leaves the task in the
	// nursery's scope. If Values has a method TaskName() string and Name is empty,
	// that method names the task. It is called only when the name is needed.
	Values context.Context

	own       *Scope      // a scope of the task's own that was opened already
	code      uintptr     // of the function that names the task; 0 for the one that runs
	cancelled func(error) // called instead of the function if the task is cancelled while the nursery is full; nil for none
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
	n.start(&o, fn)
}

// cancelled reports whether err is the cancellation of the nursery, or of a scope around
// it, and nothing else.
func (n *Nursery) cancelled(err error) bool {
	var c *Canceled
	return errors.As(err, &c) && isOnly(c.Scope, err) && c.Scope.reaches(n.scope)
}
