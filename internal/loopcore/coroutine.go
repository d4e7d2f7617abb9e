package loopcore

// Coroutine is an entry of a lane that can be resumed. Unlike a callback it can be
// recognized: a coroutine that is about to wait can switch to the next one without going
// back to the loop.
type Coroutine interface {
	// Resume runs the coroutine until it waits.
	Resume()
}

// ResumeSoon resumes co on the loop in a coming turn, in the lane of p, in order with the
// callbacks there. It does not check that the caller is on the loop.
func (c *Loop) ResumeSoon(p Priority, co Coroutine) { c.lanes[p].pushCoroutine(co) }

// NextCoroutine returns the coroutine that the loop would resume next if the running
// callback returned now, with nothing else to do before. It returns nil if there is none.
// Code that runs the coroutine instead of returning calls TakeCoroutine first.
func (c *Loop) NextCoroutine() Coroutine {
	q := c.serving
	if q == nil || q.head == q.tail {
		return nil
	}
	if q.head == q.end { // it would be in another turn
		if c.SincePoll >= PollEvery || c.TimersDue || c.inbox.waiting.Load() || c.config.Observed || c.Ready() != q.len() {
			return nil
		}
	}
	return q.at(q.head).co
}

// TakeCoroutine removes the coroutine that NextCoroutine returned from its lane.
func (c *Loop) TakeCoroutine() {
	q := c.serving
	if q.head == q.end { // another turn
		q.end++
		c.SincePoll++
		c.Turns++
	}
	q.at(q.head).co = nil
	q.head++
}
