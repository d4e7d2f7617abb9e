package spindle

import (
	"context"

	"github.com/spindleloop/spindle/internal/coro"
)

// Waker wakes one wait of one task. It is the primitive that every wait is made
// of:
//
//	w, err := spindle.NewWaker(ctx)
//	if err != nil {
//		return err // cancelled before it began
//	}
//	… // arrange for w.Wake to be called
//	return w.Park(ctx, "something", abort)
//
// It is for the loop's goroutine; elsewhere, Post a function that uses it.
type Waker coro.Waker

// NewWaker makes the Waker of the calling task's next wait, which must follow: by Park,
// or by Pass if there is nothing to wait for. It fails if ctx is cancelled.
//
//go:noinline
func NewWaker(ctx context.Context) (Waker, error) {
	// It is not inlined, so that its callers can be: design 009.
	sc, ok := ctx.(*Scope)
	if !ok {
		return newWaker(ctx)
	}
	c := sc.s.core.Caller()
	if c == nil {
		return newWaker(ctx)
	}
	if c.FreeContext() != context.Context(sc) || c.MayHoldThread() {
		return newWaker(ctx)
	}
	return Waker(c.NextWaker()), nil
}

// newWaker is NewWaker without the assumptions of its fast path.
func newWaker(ctx context.Context) (Waker, error) {
	t, scope := caller(ctx, "NewWaker")
	if err := t.check(ctx, scope); err != nil {
		return Waker{}, err
	}
	return Waker(t.co.NextWaker()), nil
}

// Pass takes the place of Park where there is nothing to wait for. After many such waits
// in a row it lets other tasks run, so that no task keeps the loop by never having to
// wait. It is not cancelled: the task keeps its result.
func (w Waker) Pass() { coro.Waker(w).Pass() }

// Aborter undoes what was arranged for a wait.
type Aborter interface {
	// Abort is called on the loop when the wait is cancelled. It undoes what was
	// arranged and returns true, and the wait fails with the cancellation. Or it
	// returns false, because the wait is about to end otherwise, and then Wake
	// must still be called: a result that arrives together with a cancellation
	// is not lost.
	Abort() bool
}

// AbortFunc returns an Aborter that calls fn.
func AbortFunc(fn func() bool) Aborter { return abortFunc(fn) }

type abortFunc func() bool

func (f abortFunc) Abort() bool { return f() }

// Park suspends the calling task until Wake is called, and returns Wake's argument; or
// until ctx, or a scope that the task is in, is cancelled, and abort returns true. What
// names the wait in the task tree.
func (w Waker) Park(ctx context.Context, what string, abort Aborter) error {
	return w.suspend(ctx, what, abort)
}

// suspend is Park. Park is inlined, so that suspend is directly below the caller: every
// return after a switch is mispredicted, and costs as much as twenty instructions.
func (w Waker) suspend(ctx context.Context, what string, abort Aborter) error {
	cw := coro.Waker(w)
	if c := cw.Coro(); c != nil {
		if sc, ok := ctx.(*Scope); !ok || c.Context() != context.Context(sc) {
			c.BindNext()
		}
	}
	sw, err := cw.Leave(ctx, what, abort)
	for sw != nil {
		sw()
		sw, err = cw.Back()
	}
	return err
}

// Wake ends the wait; Park returns err. It reports false if the wait has not begun or has
// ended already.
func (w Waker) Wake(err error) bool { return coro.Waker(w).Wake(err) }

// task returns the task of a Waker that is not zero.
func (w Waker) task() *Task { return taskOn(coro.Waker(w).Coro()) }

// Lot is a queue of waiting tasks, first come, first served: what locks and
// queues are made of. The zero Lot is ready for use. It is for one loop.
type Lot struct{ waiters taskList }

// Wait suspends the calling task until Wake takes it out of the queue.
func (l *Lot) Wait(ctx context.Context, what string) error {
	w, err := NewWaker(ctx)
	if err != nil {
		return err
	}
	t := w.task()
	x := t.extras()
	l.waiters.push(&x.inLot, t)
	return w.Park(ctx, what, (*lotWait)(x))
}

// lotWait is aborted by leaving the queue. A task that Wake has taken out of the queue
// keeps its result.
type lotWait extra

func (w *lotWait) Abort() bool { return w.inLot.remove() }

// Wake wakes the first n tasks in the queue. It returns the number of tasks it woke.
func (l *Lot) Wake(n int) int {
	woken := 0
	for ; woken < n; woken++ {
		t := l.waiters.front()
		if t == nil {
			break
		}
		t.scope.s.only("Lot.Wake")
		t.extra.inLot.remove()
		t.wake(nil)
	}
	return woken
}

// Empty reports whether no task waits.
func (l *Lot) Empty() bool { return l.waiters.front() == nil }

// Checkpoint is a wait for nothing: it fails if ctx is cancelled, and after many such
// waits in a row it lets other tasks run. A call that may wait has one also where it need
// not wait, so that cancellation and fairness do not depend on that.
func Checkpoint(ctx context.Context) error {
	w, err := NewWaker(ctx)
	if err != nil {
		return err
	}
	w.Pass()
	return nil
}
