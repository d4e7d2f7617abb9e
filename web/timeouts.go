package web

import (
	"time"

	"github.com/spindleloop/spindle/loop"
)

// timeoutList is connections that wait for the same thing and may all do so equally long:
// the first to come is the first to expire, so that one timer serves them all. Loop
// goroutine only.
type timeoutList struct {
	l       *loop.Loop
	most    time.Duration // 0 for no limit
	expired func(*conn)

	first, last *conn
	timer       loop.Timer
	armed       bool   // the timer is set
	fires       func() // fire, made once
}

func (q *timeoutList) init(l *loop.Loop, most time.Duration, expired func(*conn)) {
	q.l, q.most, q.expired = l, most, expired
	q.fires = q.fire
}

// add puts c at the end, out of the queue that it was in.
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
	if !q.armed && q.most > 0 {
		q.arm(q.most)
	}
}

func (q *timeoutList) arm(d time.Duration) {
	q.armed = true
	q.timer = q.l.CallLater(d, q.fires)
}

// leave takes c out of the queue that it is in.
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

// fire ends who has waited too long, and looks again when the next will have. A
// queue that is empty then has no timer.
func (q *timeoutList) fire() {
	q.armed = false
	now := q.l.Time()
	for q.first != nil && q.first.since+q.most <= now {
		c := q.first
		c.leave()
		q.expired(c)
	}
	if q.first != nil && !q.armed {
		q.arm(q.first.since + q.most - now)
	}
}

// each calls fn for all who wait. They may leave meanwhile.
func (q *timeoutList) each(fn func(*conn)) {
	for c := q.first; c != nil; {
		next := c.next
		fn(c)
		c = next
	}
}
