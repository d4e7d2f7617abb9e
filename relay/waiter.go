package relay

import (
	"context"
	"time"

	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/loop"
)

// waiter is a call, from its request to its end. A waiter of Call is reused.
type waiter struct {
	onloop.Parker // of the task or goroutine that waits, while parked
	c             *Caller
	req           *outgoing
	home          *home  // of the caller
	alarm         *alarm // nil unless the call has a deadline of its own

	// Guarded by c.mu.
	reply        *Envelope
	err          error
	in           *incoming // of a stream; nil until something has come
	next         *waiter   // in the list of spare waiters, or of those to be woken
	older, newer *waiter   // in the home's list of deadlines
	ended        ending
	parked       bool // a task or goroutine waits
	listed       bool // in the home's list of deadlines

	// Set when the call begins. They are here to save space.
	stream  bool
	limited bool // by the home's list of deadlines

	copies, refused uint32 // of the request, besides the first; guarded by c.mu
}

// alarm is a timer for the deadline of one call.
type alarm struct {
	onLoop loop.Timer // of a task
	timer  *time.Timer
}

// newWaiter returns a waiter that is not in use. In a task it is called on the loop;
// otherwise the caller holds c.mu.
func (p *home) newWaiter() *waiter {
	w := p.spare
	if w == nil {
		return &waiter{c: p.c, home: p}
	}
	p.spare, w.next = w.next, nil
	p.spares--
	return w
}

// keepWaiters is how many waiters a home keeps for later calls.
const keepWaiters = 1024

// release takes back the waiter of a call that has ended.
func (w *waiter) release() {
	p := w.home
	if !w.stopAlarm() {
		return
	}
	if p.l == nil {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
	}
	if p.spares == keepWaiters {
		return
	}
	w.req, w.reply, w.err, w.in = nil, nil, nil, nil
	w.ended, w.stream, w.copies, w.refused = waiting, false, 0, 0
	w.next, p.spare = p.spare, w
	p.spares++
}

// setAlarm ends the call at its deadline, unless it is in the home's list.
func (w *waiter) setAlarm(in time.Duration) {
	w.alarm = &alarm{}
	if w.home.l != nil {
		w.alarm.onLoop = w.home.l.CallLater(in, w.timeout)
	} else {
		w.alarm.timer = after(in, w.timeout)
	}
}

// stopAlarm stops the timer. It reports false if the timer may still call timeout: in a
// goroutine of its own already, or because only its loop can stop it.
func (w *waiter) stopAlarm() bool {
	a := w.alarm
	w.alarm = nil
	switch {
	case a == nil:
		return true
	case a.timer != nil:
		return a.timer.Stop()
	case w.home.l.Owns():
		a.onLoop.Cancel()
		return true
	}
	return false
}

// wouldBlock ends the message about a call on a goroutine that runs a loop.
const wouldBlock = " would block the loop: in a task, pass the task's context"

// wait waits until there is a result or an item. If ctx ends first, wait fails, and the
// call goes on.
func (w *waiter) wait(ctx context.Context) error {
	if err := w.Prepare(ctx, "relay: Call"+wouldBlock); err != nil {
		return err
	}
	if !w.park() {
		w.Pass()
		return nil
	}
	if l := w.Loop(); l != nil {
		l.Internal().ExpectPost()
	}
	return w.Park(ctx, "relay: reply", w)
}

// park reports whether there is nothing to read, and the caller has to wait.
func (w *waiter) park() bool {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.parked = !w.ready(); w.parked && w.limited && !w.listed {
		w.home.limit(w)
	}
	return w.parked
}

// ready reports whether there is something to read. The caller holds c.mu.
func (w *waiter) ready() bool { return w.ended != waiting || w.hasItems() }

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

// timeout ends the call at its deadline, and wakes its task or goroutine.
func (w *waiter) timeout() {
	if !w.c.end(w, expired) {
		return
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.wakeIfDue()
}
