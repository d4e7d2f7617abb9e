package loop

import (
	"time"

	"github.com/spindleloop/spindle/internal/goid"
)

// Scheduler returns what SetScheduler has set, nil before that. It is package coro's.
func (c *internals) Scheduler() any { return c.scheduler }

// SetScheduler sets the scheduler of tasks.
func (c *internals) SetScheduler(s any) { c.scheduler = s }

// Owner returns the goroutine that runs the loop, 0 if none does. Any goroutine may call it.
func (c *internals) Owner() uintptr { return (*Loop)(c).runner() }

// SetOwner makes g the goroutine that may use the loop. A coroutine is a goroutine of its
// own: the code that resumes a coroutine sets it as the owner.
func (c *internals) SetOwner(g uintptr) { c.owner.Store(g) }

// Entered returns how the goroutine that runs the loop was locked to its thread when it
// began to. A callback that changes the lock must restore it before it returns.
func (c *internals) Entered() goid.ThreadLock { return c.entered }

// OnEntry calls fn once, when a goroutine next begins to run the loop. It replaces the
// function of an earlier call.
func (c *internals) OnEntry(fn func()) { c.onEntry = fn }

// TurnTime returns the loop's time as it was when the kernel was last polled. It costs
// nothing, and must not be used to set timers.
func (c *internals) TurnTime() time.Duration { return c.now }

// FreeWaits returns how many waits of a task may complete at once before it must let others
// run: one if the last callbacks were long.
func (c *internals) FreeWaits() int8 { return c.freeWaits }

// ResumeSoon resumes co on the loop in a coming turn, in the lane of p, in order with the
// callbacks there. It does not check that the caller is on the loop.
func (c *internals) ResumeSoon(p Priority, co coroutine) { c.lanes[p].pushCoroutine(co) }

// NextCoroutine returns the coroutine that the loop would resume next if the running
// callback returned now, with nothing else to do before. It returns nil if there is none.
// Code that runs the coroutine instead of returning calls TakeCoroutine first.
func (c *internals) NextCoroutine() coroutine {
	q := c.serving
	if q == nil || q.head == q.tail {
		return nil
	}
	if q.head == q.end { // it would be in another turn
		l := (*Loop)(c)
		if l.pollMayBeDue() || l.timersDue || l.inbox.waiting.Load() || l.opts.OnTurn != nil || l.ready() != q.len() {
			return nil
		}
	}
	return q.at(q.head).co
}

// TakeCoroutine removes the coroutine that NextCoroutine returned from its lane.
func (c *internals) TakeCoroutine() {
	q := c.serving
	if q.head == q.end { // another turn
		q.end++
		c.sincePoll++
		c.stats.Turns++
	}
	q.at(q.head).co = nil
	q.head++
}

// ExpectPost says that a goroutine will probably post very soon. The loop's next wait may
// then be in Go's scheduler.
func (c *internals) ExpectPost() { c.goWait.expected = true }

// GoWaits returns how often the loop has waited in Go's scheduler.
func (c *internals) GoWaits() uint64 { return c.goWait.waits }
