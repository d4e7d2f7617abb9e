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
	c.stats.Hedged++
	w.hedged = true
	again := clone(&w.req.Envelope)
	c.mu.Unlock()
	if again.Deadline, _ = again.remaining(c.clock.now()); again.Deadline > 0 {
		_ = c.bus.TryPublish(again) // a bus that takes no more, or stores the request, has the first one
	}
}

// cancelHedges cancels the copies of a request that was answered.
func (c *Caller) cancelHedges(w *waiter) {
	c.mu.Lock()
	var e *Envelope
	if w.hedged && w.ended == replied {
		w.req.origin.abandoned.Store(true) // for those in the queue of a Local
		e = c.cancelOf(w)
	}
	c.mu.Unlock()
	c.sendCancel(e)
}
