package transport

import (
	"net"

	"github.com/spindleloop/spindle/loop"
)

// mark is a function to be called when a number of bytes were sent.
type mark struct {
	at uint64
	fn func(error)
}

// settle calls the functions of marks that were reached.
func (c *Conn) settle() {
	for e := c.extra; e != nil && len(e.marks) > 0 && e.marks[0].at <= c.out; {
		fn := e.marks[0].fn
		e.marks = e.marks[1:]
		fn(nil)
	}
}

// abandon is settle when no more bytes will get out. All hear of it, even if one
// panics.
func (c *Conn) abandon(why error) {
	e := c.extra
	if e == nil || len(e.marks) == 0 {
		return
	}
	defer func() { c.abandon(why) }()
	mark := e.marks[0]
	e.marks = e.marks[1:]
	if mark.at <= c.out {
		mark.fn(nil)
	} else {
		mark.fn(why)
	}
}

// AfterFlush calls fn once everything written so far was handed to the system, or
// with an error if it never will be. It is not called inside this call.
func (c *Conn) AfterFlush(fn func(error)) {
	c.only("AfterFlush")
	if fn == nil {
		panic("transport: AfterFlush with a nil function")
	}
	was := c.state
	if c.is(gathered) {
		c.st.flush()
	}
	if was&lost != 0 || c.is(broken) {
		c.st.hub.L.CallSoonWith(loop.RunAtClose, func() { fn(net.ErrClosed) })
		return
	}
	e, at := c.more(), c.out
	if c.unsent != nil {
		at += uint64(c.unsent.total())
	}
	e.marks = append(e.marks, mark{at, fn})
	if c.unsent == nil && !c.is(lost) {
		c.st.hub.L.CallSoonWith(loop.DropAtClose, func() {
			if !c.is(lost) {
				c.guarded(c.settle)
			}
		})
	}
}
