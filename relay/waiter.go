package relay

import (
	"context"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// waiter is a call, from its request to its end. A waiter of Call is reused.
type waiter struct {
	parker // of the task or goroutine that waits, while parked
	c      *Caller
	req    *Envelope
	scope  *spindle.Scope // of the task that called; nil for a goroutine
	timer  loop.Timer     // of the task; loop goroutine only
	expire func()         // the timer's callback; made when first needed

	// Guarded by c.mu.
	reply  *Envelope
	err    error
	items  []*Envelope // of a stream, not yet read
	worker string      // the subject of the worker that has sent items
	next   *waiter     // in the list of spare waiters, or of those to be woken
	plane  *plane      // of the task that waits
	got    uint32      // items received
	ended  ending
	parked bool // a task or goroutine waits in block

	// Set when the call begins. They are here to save space.
	stream bool
	fresh  bool // the request was sent just now, so that all of its time remains
	scoped bool // the deadline is that of ctx, which ends the wait, with an error of its own
}

// waiter returns a waiter that is not in use. The caller holds c.mu.
func (c *Caller) waiter() *waiter {
	w := c.spare
	if w == nil {
		return &waiter{c: c}
	}
	c.spare, w.next = w.next, nil
	c.spares--
	return w
}

// keepWaiters is how many waiters are kept for later calls.
const keepWaiters = 1024

// release takes back the waiter of a call that has ended.
func (c *Caller) release(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.req, w.reply, w.err, w.scope, w.items, w.worker, w.got = nil, nil, nil, nil, nil, "", 0
	w.ended, w.stream = waiting, false
	if c.spares < keepWaiters {
		w.next, c.spare = c.spare, w
		c.spares++
	}
}

// wait waits until there is a result or an item, or until the deadline, which ends the call.
// If ctx ends first, wait fails, and the call goes on.
func (w *waiter) wait(ctx context.Context) error {
	if spindle.Current(ctx) == nil {
		return w.waitOutside(ctx)
	}
	if err := w.prepare(ctx, "Call"); err != nil {
		return err
	}
	if !w.park() {
		w.pass()
		return nil
	}
	if w.scoped && !w.stream {
		return w.block(ctx, "relay: reply", w)
	}
	if w.expire == nil {
		w.expire = w.timeout
	}
	w.timer = w.l.CallLater(w.left(), w.expire)
	err := w.block(ctx, "relay: reply", w)
	w.timer.Cancel()
	return err
}

// left returns how long the caller may wait. If ctx has the deadline, it should end the wait
// first; but a stream may be read with another ctx.
func (w *waiter) left() time.Duration {
	if w.fresh {
		return w.req.Deadline
	}
	left, _ := w.req.remaining(w.c.clock.now())
	if w.scoped {
		left += time.Millisecond
	}
	return left
}

// waitOutside is wait for a goroutine.
func (w *waiter) waitOutside(ctx context.Context) error {
	if err := w.prepare(ctx, "Call"); err != nil {
		return err
	}
	if !w.park() {
		return nil
	}
	if w.scoped && !w.stream {
		return w.block(ctx, "relay: reply", w)
	}
	timer := startTimer(w.left())
	defer stopTimer(timer)
	select {
	case <-w.signal:
		return nil
	case <-ctx.Done():
		if w.Abort() {
			return context.Cause(ctx)
		}
	case <-timer.C:
		if w.Abort() {
			w.c.end(w, expired) // false if a reply came at the same time, which counts
			return nil
		}
	}
	<-w.signal
	return nil
}

// park reports whether there is nothing to read, and the caller has to block.
func (w *waiter) park() bool {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.parked = !w.ready(); w.parked && w.l != nil {
		if w.plane == nil || w.plane.l != w.l {
			w.plane = w.c.plane(w.l)
		}
		w.plane.mayLinger()
	}
	return w.parked
}

// ready reports whether there is something to read. The caller holds c.mu.
func (w *waiter) ready() bool { return w.ended != waiting || len(w.items) > 0 }

// wakeIfDue wakes w if it is parked and has something to read. The caller holds c.mu.
func (w *waiter) wakeIfDue() {
	if w.parked && w.ready() {
		w.parked = false
		w.wake()
	}
}

// Abort ends the wait when ctx ends. It reports false if the waiter is being woken: a
// result is not lost.
func (w *waiter) Abort() bool {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	was := w.parked
	w.parked = false
	return was
}

// timeout ends the call at its deadline, and wakes its task.
func (w *waiter) timeout() {
	if !w.c.end(w, expired) {
		return
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.wakeIfDue()
}
