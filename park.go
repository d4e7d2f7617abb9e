package spindle

import "context"

// Park is the primitive that every wait is made of. It suspends the calling task
// until its Waker is used, and returns what Wake was given. If ctx, or a scope
// that the task is in, is cancelled meanwhile, abort is called on the loop: it
// takes back what the wait has arranged and returns true, and Park fails with
// the cancellation; or it returns false, because the wait is about to end
// otherwise, and then somebody must still call Wake.
//
// The arrangement is made in begin, which gets the Waker; it is not called if the
// wait is cancelled before it begins. The Waker works once begin has returned.
// What names the wait in the task tree.
func Park(ctx context.Context, what string, begin func(Waker), abort func() bool) error {
	if begin == nil || abort == nil {
		panic("spindle: Park without begin or abort")
	}
	t, scope := caller(ctx, "Park")
	if err := t.check(ctx, scope); err != nil {
		return err
	}
	begin(Waker{t, t.seq + 1})
	return t.park(ctx, scope, what, abortFunc(abort))
}

type abortFunc func() bool

func (f abortFunc) abort(*Task) bool { return f() }

// Waker wakes one wait of one task. It is for the loop's goroutine; elsewhere,
// Post a function that uses it.
type Waker struct {
	t   *Task
	seq uint32
}

// Wake ends the wait; Park returns err. It returns false if the wait has ended
// already.
func (w Waker) Wake(err error) bool {
	if w.t != nil {
		w.t.s.only("Waker.Wake")
	}
	if w.t == nil || w.t.seq != w.seq || w.t.state != waiting {
		return false
	}
	w.t.wake(err)
	return true
}

// Lot is a queue of waiting tasks, first come, first served: what locks and
// queues are made of. The zero Lot is ready for use. It is for one loop.
type Lot struct{ waiters list }

// Wait suspends the calling task until Wake takes it out of the queue.
func (l *Lot) Wait(ctx context.Context, what string) error {
	t, scope := caller(ctx, "Lot.Wait")
	if err := t.check(ctx, scope); err != nil {
		return err
	}
	l.waiters.push(&t.inQueue, t)
	return t.park(ctx, scope, what, lotWait{})
}

// lotWait is given up by leaving the queue. A task that Wake has taken out is
// not in it any more: it keeps what it was given.
type lotWait struct{}

func (lotWait) abort(t *Task) bool { return t.inQueue.remove() }

// Wake wakes the first n tasks in the queue and tells how many there were.
func (l *Lot) Wake(n int) int {
	woken := 0
	for ; woken < n; woken++ {
		t := l.waiters.front()
		if t == nil {
			break
		}
		t.s.only("Lot.Wake")
		t.inQueue.remove()
		t.wake(nil)
	}
	return woken
}

// Empty tells whether nobody waits.
func (l *Lot) Empty() bool { return l.waiters.front() == nil }

// Checkpoint is for waits that complete at once: it fails if ctx is cancelled,
// and lets the others run when there were many such waits in a row. Every call
// that may wait begins with it, so that whether it does wait makes no difference
// to cancellation and fairness.
func Checkpoint(ctx context.Context) error {
	t, scope := caller(ctx, "Checkpoint")
	if err := t.check(ctx, scope); err != nil {
		return err
	}
	t.spend()
	return nil
}
