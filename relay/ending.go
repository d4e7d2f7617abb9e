package relay

import (
	"github.com/spindleloop/spindle/internal/probe"
)

// ending is how a call ended.
type ending uint8

const (
	waiting  ending = iota // it has not
	replied                // by a Reply or a Failure
	expired                // by its deadline
	canceled               // by its scope, or because its stream was closed
	failed                 // by an error on this side
)

var endingNames = [...]string{"waiting", "replied", "timed out", "canceled", "failed"}

func (e ending) String() string { return endingNames[e] }

// deliver receives replies, from any goroutine.
func (c *Caller) deliver(e *Envelope) {
	c.mu.Lock()
	w := c.reg.find(e.ID, e.Token)
	switch {
	case e.Kind != KindReply && e.Kind != KindItem && e.Kind != KindFailure:
		c.stats.Unknown++
	case w == nil:
		c.countStray(e.ID)
	case e.Kind == KindFailure && w.isOverdue(e):
		c.stats.Late++
	case e.Kind == KindFailure && w.isRefusal(e):
	case w.stream && w.receive(e):
	case w.stream, e.Kind == KindItem:
		c.stats.Duplicate++
	default:
		if e.Kind == KindFailure {
			w.err = remoteError(w.req.Subject, e)
		} else {
			w.reply = e
		}
		c.conclude(w, replied)
	}
	var cancel, credit *Envelope
	if w != nil {
		switch {
		case w.ended == failed: // a broken stream
			cancel = c.cancelOf(w)
		case w.stream:
			credit = w.creditDue()
		}
		w.wakeIfDue() // the last use of w, which belongs to its caller again when the call has ended
	}
	c.mu.Unlock()
	if cancel != nil {
		c.sendCancel(cancel)
	}
	if credit != nil {
		c.sendCredit(w, credit)
	}
}

// isOverdue reports whether a failure says that the call's deadline has passed at the worker, and it has
// passed here, too. Then the call ends by its deadline, or by that of its context, as it would
// without a worker. The caller holds c.mu.
func (w *waiter) isOverdue(e *Envelope) bool {
	if e.Headers[errorCode] != codeDeadline {
		return false
	}
	left, _ := w.req.remaining(w.c.clock.now())
	return left <= 0
}

// isRefusal reports whether a failure says that one of several copies of the request reached no worker. Another
// copy may still be answered. The caller holds c.mu.
func (w *waiter) isRefusal(e *Envelope) bool {
	code := e.Headers[errorCode]
	if w.refused >= w.copies || code != codeNoResponder && code != codeFull {
		return false
	}
	w.refused++
	w.refusal = e
	return true
}

// countStray counts a reply that belongs to no waiter. The caller holds c.mu.
func (c *Caller) countStray(id uint64) {
	switch known, last := c.reg.past(id); {
	case !known:
		c.stats.Unknown++
	case last == replied:
		c.stats.Duplicate++
	default:
		c.stats.Late++
	}
}

// conclude ends a call that waits. The caller holds c.mu.
func (c *Caller) conclude(w *waiter, how ending) {
	w.ended = how
	if how != replied {
		w.req.origin.abandoned.Store(true)
	}
	if w.listed {
		w.among.unlimit(w)
	}
	c.reg.remove(w.req.ID, how)
	switch how {
	case replied:
		c.stats.Replied++
		if probe.Measuring.Load() {
			c.measure(w)
		}
	case expired:
		c.stats.TimedOut++
	case canceled:
		c.stats.Canceled++
	case failed:
		c.stats.Failed++
	}
}

// end ends a call if it waits, and reports whether it did. For all endings but a reply and
// a failure to send, the worker is notified.
func (c *Caller) end(w *waiter, how ending) bool {
	c.mu.Lock()
	if w.ended != waiting {
		c.mu.Unlock()
		return false
	}
	c.conclude(w, how)
	if how == failed {
		c.mu.Unlock()
		return true
	}
	e := c.cancelOf(w)
	c.mu.Unlock()
	c.sendCancel(e)
	return true
}

// cancelOf returns the message that the call has ended: for the worker that has sent items,
// or for all workers of the subject, because any of them may have the request, or several if
// it was redelivered. The caller holds c.mu.
func (c *Caller) cancelOf(w *waiter) *Envelope {
	to := ""
	if w.in != nil && w.in.attempt <= 1 {
		to = w.in.worker
	}
	if to == "" {
		last := &c.lastCancel
		if last.subject != w.req.Subject { // often the calls of a scope end together
			last.subject, last.to = w.req.Subject, cancelSubject(w.req.Subject)
		}
		to = last.to
	}
	e := &Envelope{Kind: KindCancel, Trace: w.req.Trace, ID: w.req.ID, Token: w.req.Token, Subject: to, ReplyTo: c.inbox, Deadline: w.req.Deadline}
	if c.local {
		e.from = w.req.from
	}
	return e
}

// sendCancel sends a message of cancelOf.
func (c *Caller) sendCancel(e *Envelope) {
	err := c.bus.TryPublish(e)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.stats.CancelsLost++
	} else {
		c.stats.CancelsSent++
	}
}

// cancelHedges cancels the copies of a request that was answered.
func (c *Caller) cancelHedges(w *waiter) {
	c.mu.Lock()
	if w.copies == 0 || w.ended != replied {
		c.mu.Unlock()
		return
	}
	w.req.origin.abandoned.Store(true) // for those in the queue of a bus inside the process
	e := c.cancelOf(w)
	c.mu.Unlock()
	c.sendCancel(e)
}
