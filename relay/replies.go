package relay

// deliver receives replies, from any goroutine. It does not keep e.
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
	case w.stream && w.receive(e):
	case w.stream, e.Kind == KindItem:
		c.stats.Duplicate++
	default:
		if e.Kind == KindFailure {
			w.err = remoteError(w.req.Subject, e)
		} else {
			w.body = e.Body
			if e.Headers != nil { // otherwise Do knows the rest
				w.reply = clone(e)
			}
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

// deliverBody receives a reply that is only a body, from any goroutine. It reports false if c
// is closed, or if the call is a stream. A Local calls it.
func (c *Caller) deliverBody(id, token uint64, body []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	w := c.reg.find(id, token)
	switch {
	case w == nil:
		c.countStray(id)
		return true
	case w.stream:
		return false
	}
	w.body = body
	c.conclude(w, replied)
	w.wakeIfDue() // the last: a call that has ended is not ours any more
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
