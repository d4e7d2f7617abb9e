package web

import (
	"time"

	"github.com/spindleloop/spindle/loop"
)

// timeoutList is a list of connections that wait for the same thing, all equally long.
// The first to enter is the first to expire, so one timer serves the list. Loop goroutine
// only.
type timeoutList struct {
	l       *loop.Loop
	after   time.Duration // 0 for no limit
	expired func(*conn)

	first, last *conn
	timer       loop.Timer
	armed       bool   // timer is set
	onTimer     func() // the method fire, made once
}

func (q *timeoutList) init(l *loop.Loop, after time.Duration, expired func(*conn)) {
	q.l, q.after, q.expired = l, after, expired
	q.onTimer = q.fire
}

// add moves c to the end of q, from the list that c is in.
func (q *timeoutList) add(c *conn) {
	c.leave()
	c.in, c.since = q, q.l.Internal().TurnTime()
	c.prev = q.last
	if q.last != nil {
		q.last.next = c
	} else {
		q.first = c
	}
	q.last = c
	if !q.armed && q.after > 0 {
		q.arm(q.after)
	}
}

func (q *timeoutList) arm(d time.Duration) {
	q.armed = true
	q.timer = q.l.CallLater(d, q.onTimer)
}

// leave removes c from the list that it is in.
func (c *conn) leave() {
	q := c.in
	if q == nil {
		return
	}
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		q.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		q.last = c.prev
	}
	c.in, c.prev, c.next = nil, nil, nil
}

// restart changes how long connections of the list wait. Those that wait already do so
// from now on. Zero expires them at once.
func (q *timeoutList) restart(after time.Duration) {
	q.timer.Cancel()
	q.after = after
	now := q.l.Time()
	q.each(func(c *conn) { c.since = now })
	q.fire()
}

// fire expires the connections that have waited long enough, and sets the timer for the
// next one. An empty list has no timer.
func (q *timeoutList) fire() {
	q.armed = false
	now := q.l.Time()
	for q.first != nil && now-q.first.since >= q.after {
		c := q.first
		c.leave()
		q.expired(c)
	}
	if q.first != nil && !q.armed {
		q.arm(q.after - (now - q.first.since))
	}
}

// each calls fn for every connection in the list, which fn may remove.
func (q *timeoutList) each(fn func(*conn)) {
	for c := q.first; c != nil; {
		next := c.next
		fn(c)
		c = next
	}
}
