package transport

import (
	"net"

	"github.com/spindleloop/spindle/internal/atclose"
)

// flushWaiter is a function to call when the connection has sent at bytes in total.
type flushWaiter struct {
	at uint64
	fn func(error)
}

// flushed returns how many bytes were handed to the system. out includes the bytes of
// records that are still queued.
func (c *Conn) flushed() uint64 {
	if c.unsentRaw() > 0 {
		return c.unsent.rawAt
	}
	return c.out
}

// runFlushWaiters calls the waiters that are due.
func (c *Conn) runFlushWaiters() {
	for e := c.extra; e != nil && len(e.flushWaiters) > 0 && e.flushWaiters[0].at <= c.flushed(); {
		fn := e.flushWaiters[0].fn
		e.flushWaiters = e.flushWaiters[1:]
		fn(nil)
	}
}

// endFlushWaiters calls every waiter when no more bytes will be sent, with err unless
// its position is among the first flushed bytes. All are called even if one panics.
func (c *Conn) endFlushWaiters(flushed uint64, err error) {
	e := c.extra
	if e == nil || len(e.flushWaiters) == 0 {
		return
	}
	defer func() { c.endFlushWaiters(flushed, err) }()
	w := e.flushWaiters[0]
	e.flushWaiters = e.flushWaiters[1:]
	if w.at <= flushed {
		w.fn(nil)
	} else {
		w.fn(err)
	}
}

// AfterFlush calls fn with nil once everything written so far was handed to the system,
// or with an error if it never will be. It never calls fn before it returns.
func (c *Conn) AfterFlush(fn func(error)) {
	c.checkLoop("AfterFlush")
	if fn == nil {
		panic("transport: AfterFlush with a nil function")
	}
	wasLost := c.phase.lost()
	if c.is(hasGathered) {
		c.st.flush()
	}
	if wasLost || c.phase == phaseFailed {
		c.st.sockets.L.Internal().CallSoon(atclose.Run, func() { fn(net.ErrClosed) })
		return
	}
	e, at := c.ensureExtra(), c.out
	if c.unsent != nil {
		at += uint64(c.unsent.total())
	}
	e.flushWaiters = append(e.flushWaiters, flushWaiter{at, fn})
	if c.unsent == nil && !c.phase.lost() {
		c.st.sockets.L.Internal().CallSoon(atclose.Drop, func() {
			if !c.phase.lost() {
				c.guard(c.runFlushWaiters)
			}
		})
	}
}
