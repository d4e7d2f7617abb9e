package spindle

import "github.com/spindleloop/spindle/loop"

// callbacks are functions to be called once, in the order in which they were added. Loop
// goroutine only.
type callbacks struct{ first, last *callback }

type callback struct {
	fn         func()
	in         *callbacks // nil once it was taken out
	prev, next *callback
	handle     loop.Handle // set once the loop is to call fn
}

// add adds fn at the end.
func (cs *callbacks) add(fn func()) *callback {
	c := &callback{fn: fn, in: cs, prev: cs.last}
	if cs.last != nil {
		cs.last.next = c
	} else {
		cs.first = c
	}
	cs.last = c
	return c
}

// take takes all of them out, and returns them in order.
func (cs *callbacks) take() (all []*callback) {
	for c := cs.first; c != nil; c = c.next {
		c.in = nil
		all = append(all, c)
	}
	*cs = callbacks{}
	return all
}

// schedule takes all of them out, and makes the loop call them in a coming turn.
func (cs *callbacks) schedule(l *loop.Loop) {
	for _, c := range cs.take() {
		c.handle = l.CallSoon(c.fn)
	}
}

// stop removes the callback. It reports whether the callback was still to be called.
func (c *callback) stop() bool {
	cs := c.in
	if cs == nil {
		return c.handle.Cancel()
	}
	c.in = nil
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		cs.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		cs.last = c.prev
	}
	return true
}
