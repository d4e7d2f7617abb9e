package relay

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// WaiterInfo describes a call that waits.
type WaiterInfo struct {
	ID       uint64
	TraceID  string // in hexadecimal; "" for none
	Subject  string
	Age      time.Duration
	Deadline time.Duration // the time that remains
	Stream   bool
	Task     bool // called by a task; otherwise by a goroutine
}

func (i WaiterInfo) String() string {
	kind := "call"
	if i.Stream {
		kind = "stream"
	}
	text := fmt.Sprintf("%s %d of %s, age %v, %v left", kind, i.ID, i.Subject, i.Age, i.Deadline)
	if i.TraceID != "" {
		text += ", trace " + i.TraceID
	}
	return text
}

// Waiters lists the calls that wait, oldest first.
func (c *Caller) Waiters() []WaiterInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiters()
}

// waiters is Waiters. The caller holds c.mu.
func (c *Caller) waiters() []WaiterInfo {
	now := c.clock.now()
	all := make([]WaiterInfo, 0, c.reg.n)
	for i := range c.reg.slots {
		if w := c.reg.slots[i].w; w != nil {
			all = append(all, w.info(now))
		}
	}
	slices.SortFunc(all, func(a, b WaiterInfo) int { return cmp.Compare(b.Age, a.Age) })
	return all
}

// info describes a waiter. The caller holds c.mu.
func (w *waiter) info(now time.Time) WaiterInfo {
	left, _ := w.req.remaining(now)
	return WaiterInfo{
		ID: w.req.ID, TraceID: traceID(&w.req.Trace), Subject: w.req.Subject,
		Age: w.req.Deadline - left, Deadline: left, Stream: w.stream, Task: w.home.l != nil,
	}
}

// LeakError is the error of Caller.Close when calls still wait.
type LeakError struct{ Waiters []WaiterInfo }

func (e *LeakError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "relay: Close: %d calls wait; end their scopes, or close their streams, first", len(e.Waiters))
	for _, w := range e.Waiters[:min(len(e.Waiters), 10)] {
		fmt.Fprintf(&b, "\n\t%v", w)
	}
	return b.String()
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
