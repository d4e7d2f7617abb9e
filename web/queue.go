package web

import (
	"time"

	"github.com/spindleloop/spindle/loop"
)

// queue is connections that wait for the same thing and may all do so equally long:
// the first to come is the first to expire, so that one timer serves them all. Loop
// goroutine only.
type queue struct {
	l       *loop.Loop
	most    time.Duration // 0 for no limit
	expired func(*conn)

	first, last *conn
	armed       bool
	fires       func() // fire, made once
}

func (q *queue) init(l *loop.Loop, most time.Duration, expired func(*conn)) {
	q.l, q.most, q.expired = l, most, expired
	q.fires = q.fire
}

// add puts c at the end, out of the queue that it was in.
func (q *queue) add(c *conn) {
	c.leave()
	c.in, c.since = q, q.l.TurnTime()
	c.before = q.last
	if q.last != nil {
		q.last.behind = c
	} else {
		q.first = c
	}
	q.last = c
	if !q.armed && q.most > 0 {
		q.armed = true
		q.l.CallLater(q.most, q.fires)
	}
}

// leave takes c out of the queue that it is in.
func (c *conn) leave() {
	q := c.in
	if q == nil {
		return
	}
	if c.before != nil {
		c.before.behind = c.behind
	} else {
		q.first = c.behind
	}
	if c.behind != nil {
		c.behind.before = c.before
	} else {
		q.last = c.before
	}
	c.in, c.before, c.behind = nil, nil, nil
}

// fire ends who has waited too long, and looks again when the next will have. A
// queue that is empty then has no timer.
func (q *queue) fire() {
	q.armed = false
	now := q.l.Time()
	for q.first != nil && q.first.since+q.most <= now {
		c := q.first
		c.leave()
		q.expired(c)
	}
	if q.first != nil && !q.armed {
		q.armed = true
		q.l.CallLater(q.first.since+q.most-now, q.fires)
	}
}

// each calls fn for all who wait. They may leave meanwhile.
func (q *queue) each(fn func(*conn)) {
	for c := q.first; c != nil; {
		next := c.behind
		fn(c)
		c = next
	}
}
