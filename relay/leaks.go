package relay

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// waiters describes the calls that wait, oldest first. The caller holds c.mu.
func (c *Caller) waiters() (texts []string) {
	now := c.clock.now()
	var all []*waiter
	for i := range c.reg.slots {
		if w := c.reg.slots[i].w; w != nil {
			all = append(all, w)
		}
	}
	slices.SortStableFunc(all, func(a, b *waiter) int { return cmp.Compare(b.age(now), a.age(now)) })
	for _, w := range all {
		texts = append(texts, w.describe(now))
	}
	return texts
}

// age returns for how long a waiter has waited. The caller holds c.mu.
func (w *waiter) age(now time.Time) time.Duration {
	left, _ := w.req.remaining(now)
	return w.req.Deadline - left
}

// describe describes a waiter. The caller holds c.mu.
func (w *waiter) describe(now time.Time) string {
	kind := "call"
	if w.stream {
		kind = "stream"
	}
	left, _ := w.req.remaining(now)
	text := fmt.Sprintf("%s %d of %s, age %v, %v left", kind, w.req.ID, w.req.Subject, w.req.Deadline-left, left)
	if id := traceID(&w.req.Trace); id != "" {
		text += ", trace " + id
	}
	return text
}

// LeakError is the error of Caller.Close when calls still wait.
type LeakError struct {
	Calls []string // that wait, oldest first: subject, age, the time that remains, and the trace
}

func (e *LeakError) Error() string {
	text := fmt.Sprintf("relay: Close: %d calls wait; end their scopes, or close their streams, first", len(e.Calls))
	for _, call := range e.Calls[:min(len(e.Calls), 10)] {
		text += "\n\t" + call
	}
	return text
}

// Close ends the Caller. Calls that still wait fail with ErrClosed, their workers are
// notified, and Close fails with a *LeakError that lists them.
func (c *Caller) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	leaked := c.waiters()
	hide(probedCaller(c))
	var cancels []*Envelope
	for i := range c.reg.slots {
		if w := c.reg.slots[i].w; w != nil {
			w.err = callerClosed(w.req.Subject)
			c.conclude(w, canceled)
			cancels = append(cancels, c.cancelOf(w))
			w.wakeIfDue()
		}
	}
	// One that has its reply may still wait for space in the queue of another group.
	var queued []func()
	inOrder := func(a, b *waiter) int { return cmp.Compare(a.req.ID, b.req.ID) }
	for _, w := range slices.SortedFunc(maps.Keys(c.queued), inOrder) {
		queued = append(queued, c.queued[w])
	}
	c.mu.Unlock()
	for _, stop := range queued {
		stop()
	}
	for _, e := range cancels {
		c.sendCancel(e)
	}
	err := c.sub.Close()
	switch {
	case len(leaked) == 0:
		return err
	case err != nil:
		return errors.Join(&LeakError{leaked}, err)
	}
	return &LeakError{leaked}
}
