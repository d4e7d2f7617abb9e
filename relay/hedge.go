package relay

import "context"

// await waits for the end of a call.
func (c *Caller) await(ctx context.Context, w *waiter) error {
	if c.o.Hedge == 0 {
		return w.wait(ctx)
	}
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
	} else {
		w.copies--
	}
}

// isRefusal reports whether a bus says that one of several copies of the request reached no worker. Another
// copy may still be answered. The caller holds c.mu.
func (w *waiter) isRefusal(e *Envelope) bool {
	if e.Kind != KindFailure || w.refused >= w.copies {
		return false
	}
	if code := e.Headers[errorCode]; code != CodeNoResponder && code != CodeFull {
		return false
	}
	w.refused++
	return true
}

// cancelHedges cancels the copies of a request that was answered.
func (c *Caller) cancelHedges(w *waiter) {
	c.mu.Lock()
	var e *Envelope
	if w.copies > 0 && w.ended == replied {
		w.req.origin.abandoned.Store(true) // for those in the queue of a Local
		e = c.cancelOf(w)
	}
	c.mu.Unlock()
	c.sendCancel(e)
}
