package cosync

import (
	"context"

	"github.com/spindleloop/spindle"
)

// Cond is a condition on state that a Mutex protects. A task that needs it
// locks the mutex, and waits as long as it does not hold; whoever changes the
// state notifies.
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
	waiting line[struct{}]
}

// NewCond makes a condition on what m protects; nil makes a mutex for it.
func NewCond(m *Mutex) *Cond {
	if m == nil {
		m = new(Mutex)
	}
	c := &Cond{Mutex: m}
	c.waiting.quit = c.quit
	return c
}

// Wait unlocks the mutex, waits for a notification, and locks the mutex again.
// The mutex is locked when Wait returns, also if it fails: a cancelled Wait takes
// as long as others hold the mutex. Between notification and return the state
// may have changed; look again.
//
// A task that was notified before it was cancelled returns nil: no notification
// is lost.
func (c *Cond) Wait(ctx context.Context) error {
	c.mustHold("Wait")
	waker, err := spindle.NewWaker(ctx)
	if err != nil {
		return err
	}
	c.admit(waker, "Cond")
	w := c.waiting.join(waker, struct{}{}, nil)
	c.Unlock()
	err = waker.Park(ctx, "Cond.Wait", w)
	if w.quitted {
		w.quitted = false
		err = spindle.Checkpoint(ctx) // says by whom it was cancelled
	}
	c.waiting.put(w)
	return err
}

// quit is the cancellation of a wait. It needs the mutex: if that is not free,
// the task goes on waiting, now for the mutex, as a notified one does.
func (c *Cond) quit(w *waiter[struct{}]) bool {
	if w.line != &c.waiting {
		return false // it waits for the mutex already
	}
	w.leave()
	if !c.held {
		c.held, c.holder = true, w.waker.Ref()
		return true
	}
	w.quitted = true
	c.Mutex.waiting.holder = &c.holder
	c.Mutex.waiting.push(w)
	return false
}

// Notify wakes the n tasks that wait longest, or as many as there are. The
// caller must hold the mutex; each of them goes on when it gets that.
func (c *Cond) Notify(n int) {
	c.here("Cond")
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

// NotifyAll wakes all that wait. The caller must hold the mutex.
func (c *Cond) NotifyAll() { c.Notify(c.waiting.n) }

func (c *Cond) mustHold(op string) {
	if !c.held {
		panic("cosync: " + op + " on a Cond whose Mutex is not locked")
	}
}

// Statistics returns the present use of the condition: Waiting counts the tasks in Wait
// that were not notified. Those that were wait for the Mutex and count there.
func (c *Cond) Statistics() Statistics {
	c.look("Cond")
	return Statistics{Waiting: c.waiting.n}
}
