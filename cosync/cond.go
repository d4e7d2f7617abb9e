package cosync

import (
	"context"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
)

// Cond is a condition on state that a Mutex protects. A task that needs the condition
// locks the mutex and waits while the condition is false. A task that changes the state
// notifies the waiting tasks.
//
//	if err := c.Lock(ctx); err != nil {
//		return err
//	}
//	defer c.Unlock()
//	for !condition() {
//		if err := c.Wait(ctx); err != nil {
//			return err
//		}
//	}
//
// Make one with NewCond.
type Cond struct {
	*Mutex
	waiting waitQueue[struct{}]
}

// NewCond makes a condition on the state that m protects. If m is nil, NewCond makes a
// mutex.
func NewCond(m *Mutex) *Cond {
	if m == nil {
		m = new(Mutex)
	}
	c := &Cond{Mutex: m}
	c.waiting.onAbort = c.abort
	return c
}

// Wait unlocks the mutex, waits for a notification, and locks the mutex again. The mutex
// is locked when Wait returns, even if Wait fails: a cancelled Wait returns only when the
// mutex is free. The state may have changed between the notification and the return, so
// check the condition again.
//
// If the task was notified before it was cancelled, Wait returns nil: no notification is
// lost.
func (c *Cond) Wait(ctx context.Context) error {
	c.mustHold("Wait")
	waker, err := spindle.NewWaker(ctx)
	if err != nil {
		return err
	}
	c.checkTask(waker, "Cond")
	w := c.waiting.join(waker, struct{}{}, nil)
	c.Unlock()
	err = waker.Park(ctx, "Cond.Wait", w)
	if w.canceled {
		w.canceled = false
		err = spindle.Checkpoint(ctx) // names the scope that was cancelled
	}
	c.waiting.release(w)
	return err
}

// abort cancels a wait. The task needs the mutex to return: if the mutex is not free, the
// task waits for it, like a task that was notified.
func (c *Cond) abort(w *waiter[struct{}]) bool {
	if w.queue != &c.waiting {
		return false // it already waits for the mutex
	}
	w.leave()
	if !c.held {
		c.held, c.holder = true, coro.Waker(w.waker).Ref()
		return true
	}
	w.canceled = true
	c.Mutex.waiting.holder = &c.holder
	c.Mutex.waiting.push(w)
	return false
}

// Notify notifies the n tasks that have waited longest, or all if there are fewer. The
// mutex must be locked. Each task continues when it gets the mutex.
func (c *Cond) Notify(n int) {
	c.checkCaller("Cond")
	c.mustHold("Notify")
	for ; n > 0; n-- {
		w := c.waiting.take()
		if w == nil {
			return
		}
		c.Mutex.waiting.holder = &c.holder
		c.Mutex.waiting.push(w)
	}
}

// NotifyAll notifies all tasks in Wait. The mutex must be locked.
func (c *Cond) NotifyAll() { c.Notify(c.waiting.n) }

func (c *Cond) mustHold(op string) {
	if !c.held {
		panic("cosync: " + op + " of a Cond: its Mutex is not locked")
	}
}
