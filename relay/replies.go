package relay

// deliver receives replies, from any goroutine.
func (c *Caller) deliver(e *Envelope) {
	c.mu.Lock()
	w := c.reg.find(e.ID, e.Token)
	switch {
	case e.Kind != KindReply && e.Kind != KindItem && e.Kind != KindFailure:
		c.stats.Unknown++
	case w == nil:
		c.countStray(e.ID)
	case w.isOverdue(e):
		c.stats.Late++
	case w.isRefusal(e):
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
		if w.ended == failed { // a broken stream
			cancel = c.cancelOf(w)
		}
		credit = w.creditDue()
		w.wakeIfDue() // the last: a call that has ended is not ours any more
	}
	c.mu.Unlock()
	c.sendCancel(cancel)
	c.sendCredit(w, credit)
}

// isOverdue reports whether e says that the call's deadline has passed at the worker, and it has
// passed here, too. Then the call ends by its deadline, or by that of its context, as it would
// without a worker. The caller holds c.mu.
func (w *waiter) isOverdue(e *Envelope) bool {
	if e.Kind != KindFailure || e.Headers[errorCode] != CodeDeadline {
		return false
	}
	left, _ := w.req.remaining(w.c.clock.now())
	return left <= 0
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
