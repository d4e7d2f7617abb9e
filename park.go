package spindle

import (
	"context"

	"github.com/spindleloop/spindle/loop"
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
type Waker struct {
	c   *coro
	seq uint32
}

// NewWaker makes the Waker of the calling task's next wait, which must follow:
// by Park or Leave, or by Pass if there is nothing to wait for. It fails if ctx is
// cancelled.
//
//go:noinline
func NewWaker(ctx context.Context) (Waker, error) {
	// Not inlined, so that who calls it can be: design 009.
	sc, ok := ctx.(*Scope)
	if !ok {
		return newWaker(ctx)
	}
	if sc.s.l.Foreign() {
		return newWaker(ctx)
	}
	t := sc.s.running
	if t == nil || t.scope != sc || t.doomed || sc.blame != nil || t.co.mayHoldThread() {
		return newWaker(ctx)
	}
	t.ignored = 0
	return Waker{t.co, t.co.seq + 1}, nil
}

// newWaker is NewWaker where something is not as it nearly always is.
func newWaker(ctx context.Context) (Waker, error) {
	t, scope := caller(ctx, "NewWaker")
	if err := t.check(ctx, scope); err != nil {
		return Waker{}, err
	}
	return Waker{t.co, t.co.seq + 1}, nil
}

// Loop is the loop of the task.
func (w Waker) Loop() *loop.Loop { return w.c.s.l }

// Pass takes the place of Park where there is nothing to wait for. It lets the
// others run when there were many such waits in a row, so that no task keeps the
// loop by never having to wait. It is not cancelled: what the task has got, it
// has got.
func (w Waker) Pass() {
	t := w.c.task
	if t.budget--; t.budget <= 0 {
		if t != w.c.s.running {
			panic(strayWaker)
		}
		t.co.mustLeaveThread()
		t.queue()
		t.rest()
	}
}

// Aborter takes back what was arranged for a wait.
type Aborter interface {
	// Abort is called on the loop when the wait is to be cancelled. It takes
	// back what was arranged and returns true, and the wait fails with the
	// cancellation; or it returns false, because the wait is about to end
	// otherwise, and then somebody must still call Wake: a result that arrives
	// together with a cancellation is not lost.
	Abort() bool
}

// AbortFunc is a function as an Aborter.
type AbortFunc func() bool

// Abort calls f.
func (f AbortFunc) Abort() bool { return f() }

// Park suspends the calling task until its Waker is used, and returns what Wake
// was given; or until ctx, or a scope that the task is in, is cancelled, and abort
// agrees. What names the wait in the task tree.
func (w Waker) Park(ctx context.Context, what string, abort Aborter) error {
	return w.c.suspend(w.seq, ctx, what, abort)
}

// Leave and Back are Park in parts, where a few nanoseconds count:
//
//	sw, err := w.Leave(ctx, "something", abort)
//	for sw != nil {
//		sw()
//		sw, err = w.Back()
//	}
//	return err
//
// The switch to another task is then made in the calling function itself. The
// processor predicts no return behind a switch, and this is one return less. From
// Leave until there is no Switch any more, nothing else may be done.
func (w Waker) Leave(ctx context.Context, what string, abort Aborter) (Switch, error) {
	return w.c.leave(w.seq, ctx, what, abort)
}

// Back tells what follows a Switch: another, or how the wait has ended.
func (w Waker) Back() (Switch, error) { return w.c.back() }

// Switch gives control to somebody else, and returns when it is given back. What it
// returns says nothing.
type Switch func() (struct{}, bool)

// strayWaker is the panic of a Park, Leave, Back or Pass that is not what follows its
// NewWaker.
const strayWaker = "spindle: a task waits with the Waker of another wait"

// Wake ends the wait; Park returns err. It returns false if the wait has not begun
// or has ended already.
//
//go:noinline
func (w Waker) Wake(err error) bool {
	// Not inlined, so that who calls it can be: design 009.
	c := w.c
	if c == nil {
		return false
	}
	if c.s.l.Foreign() {
		refuse("Waker.Wake")
	}
	t := c.task
	if t == nil || t.state != waiting || c.seq != w.seq {
		return false
	}
	c.settle(err)
	c.s.l.ResumeSoon(t.lane, c)
	return true
}

// Quick is the short way of a call that need not wait, where a few nanoseconds
// count: it tells whether the caller is a task of l that may go on at once, and
// counts that as a wait. If it is not so, because ctx is cancelled, because the task
// has had its share, because the caller is somebody else, nothing has happened; then
// NewWaker is the way, and says what is wrong.
//
//go:noinline
func Quick(ctx context.Context, l *loop.Loop) bool {
	// Not inlined, so that who calls it can be: design 009.
	sc, ok := ctx.(*Scope)
	if !ok {
		return false
	}
	s := sc.s
	if s.l != l {
		return false
	}
	if l.Foreign() {
		return false
	}
	t := s.running
	if t == nil || t.scope != sc {
		return false
	}
	if sc.blame != nil {
		return false
	}
	left := t.budget - 1
	if left <= 0 {
		return false
	}
	t.budget = left
	return true
}

// Lot is a queue of waiting tasks, first come, first served: what locks and
// queues are made of. The zero Lot is ready for use. It is for one loop.
type Lot struct{ waiters list }

// Wait suspends the calling task until Wake takes it out of the queue.
func (l *Lot) Wait(ctx context.Context, what string) error {
	w, err := NewWaker(ctx)
	if err != nil {
		return err
	}
	l.waiters.push(&w.c.inLot, w.c.task)
	return w.Park(ctx, what, (*lotWait)(w.c))
}

// lotWait is given up by leaving the queue. A task that Wake has taken out is
// not in it any more: it keeps what it was given.
type lotWait coro

func (w *lotWait) Abort() bool { return w.inLot.remove() }

// Wake wakes the first n tasks in the queue and tells how many there were.
func (l *Lot) Wake(n int) int {
	woken := 0
	for ; woken < n; woken++ {
		t := l.waiters.front()
		if t == nil {
			break
		}
		t.co.s.only("Lot.Wake")
		t.co.inLot.remove()
		t.wake(nil)
	}
	return woken
}

// Empty tells whether nobody waits.
func (l *Lot) Empty() bool { return l.waiters.front() == nil }

// Checkpoint is a wait for nothing: it fails if ctx is cancelled, and lets the
// others run when there were many such waits in a row. A call that may wait has
// one also where it need not, so that it makes no difference to cancellation and
// fairness.
func Checkpoint(ctx context.Context) error {
	w, err := NewWaker(ctx)
	if err != nil {
		return err
	}
	w.Pass()
	return nil
}
