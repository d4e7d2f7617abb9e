package relay

import (
	"context"
	"sync"
	"time"

	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/loop"
)

// waiter is a call, from its request to its end. The waiter of a call with a reply is reused.
type waiter struct {
	onloop.Parker // of the task or goroutine that waits, while parked
	c             *Caller
	req           *outgoing
	among         *deadlines // of the loop that calls, or of goroutines
	alarm         *alarm     // nil unless the call has a deadline of its own

	// Guarded by c.mu.
	reply        *Envelope
	err          error
	in           *incoming // of a stream; nil until something has come
	older, newer *waiter   // in the list of deadlines
	ended        ending
	parked       bool // a task or goroutine waits
	listed       bool // in the list of deadlines

	// Set when the call begins.
	stream  bool
	limited bool // by the list of deadlines

	// Guarded by c.mu.
	copies, refused uint32    // of the request; copies are those besides the first
	refusal         *Envelope // the last one
}

// alarm is a timer of a loop, or of goroutines.
type alarm struct {
	onLoop loop.Timer
	timer  *time.Timer // nil for one of a loop
}

// start schedules fn on l, or on a goroutine if l is nil. It is called on the loop.
func (a *alarm) start(l *loop.Loop, in time.Duration, fn func()) {
	if l != nil {
		a.onLoop = l.CallLater(in, fn)
	} else {
		a.timer = after(in, fn)
	}
}

// stop stops the timer, on its loop. It reports false if it is too late.
func (a *alarm) stop() bool {
	if a.timer != nil {
		return a.timer.Stop()
	}
	a.onLoop.Cancel()
	return true
}

// setAlarm ends the call at its deadline, unless it is in the list of deadlines.
func (w *waiter) setAlarm(in time.Duration) {
	w.alarm = &alarm{}
	w.alarm.start(w.among.l, in, w.timeout)
}

// stopAlarm stops the timer. It reports false if timeout may still be called, because only the loop
// of the timer can stop it, or it is too late. Timeout then finds that the call has ended.
func (w *waiter) stopAlarm() bool {
	switch {
	case w.alarm == nil:
		return true
	case w.among.l == nil || w.among.l.Owns():
		return w.alarm.stop()
	}
	return false
}

// spareWaiters are waiters of calls that have ended.
var spareWaiters = sync.Pool{New: func() any { return &waiter{} }}

// release returns a waiter to the pool, unless its timer may still call timeout. It is for calls that were not
// cancelled: many are cancelled together, and their waiters would be kept for nothing.
func (w *waiter) release() {
	if w.stopAlarm() {
		w.Release()
		*w = waiter{Parker: w.Parker}
		spareWaiters.Put(w)
	}
}

// wouldBlock ends the message about a call on a goroutine that runs a loop.
const wouldBlock = " would block the loop: in a task, pass the task's context"

// wait waits until there is a result or an item. If ctx ends first, wait fails, and the
// call goes on.
func (w *waiter) wait(ctx context.Context) error {
	if err := w.Prepare(ctx, "relay: Call"+wouldBlock); err != nil {
		return err
	}
	w.c.mu.Lock()
	if w.ready() {
		w.c.mu.Unlock()
		w.Pass()
		return nil
	}
	w.parked = true
	if w.limited && !w.listed {
		w.among.limit(w)
	}
	w.c.mu.Unlock()
	if l := w.Loop(); l != nil {
		l.Internal().ExpectPost()
	}
	return w.Park(ctx, "relay: reply", w)
}

// ready reports whether there is something to read. The caller holds c.mu.
func (w *waiter) ready() bool { return w.ended != waiting || w.hasItems() }

// wakeIfDue wakes w if it is parked and has something to read. The caller holds c.mu.
func (w *waiter) wakeIfDue() {
	if w.parked && w.ready() {
		w.parked = false
		w.Wake()
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

// waitHedged waits for the end of a call, and sends its request again after each time of Hedge.
func (c *Caller) waitHedged(ctx context.Context, w *waiter) error {
	for {
		late, err := moveOnAfter(ctx, c.o.Hedge, w.wait)
		if !late {
			c.cancelHedges(w)
			return err
		}
		c.sendAgain(w)
	}
}

// sendAgain sends the request of a call that waits once more.
func (c *Caller) sendAgain(w *waiter) {
	c.mu.Lock()
	if w.ended != waiting {
		c.mu.Unlock()
		return
	}
	w.copies++ // before it is sent, because a refusal may come at once
	again := clone(&w.req.Envelope)
	c.mu.Unlock()
	sent := false
	if again.Deadline, _ = again.remaining(c.clock.now()); again.Deadline > 0 {
		sent = c.bus.TryPublish(again) == nil // a bus that takes no more, or stores the request, has the first one
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if sent {
		c.stats.Hedged++
		return
	}
	if w.copies--; w.ended == waiting && w.refused > w.copies { // those that were sent were refused meanwhile
		w.err = remoteError(w.req.Subject, w.refusal)
		c.conclude(w, replied)
	}
}
