package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/transport"
)

// refuse answers what cannot be read.
func (c *conn) refuse(err error) {
	var fault *http1.Error
	errors.As(err, &fault)
	if x := c.x; x != nil { // its handler hears of it
		x.closes = true
		x.complete = true
		if fault == http1.ErrBodyTooLarge {
			x.body.fail(c.st.sv.tooLarge())
		} else {
			x.body.fail(err)
		}
		return
	}
	c.st.out = appendRefusal(c.st.out, fault.Status, fault)
	c.flushLean()
	c.close()
}

// close ends the connection behind what was written. If the peer may still be sending
// it is given the time to read the last response: the system would otherwise reset
// the connection, and drop it.
func (c *conn) close() {
	if c.is(lingers | gone) {
		return
	}
	c.leave()
	if len(c.st.out) > 0 {
		c.flushLean()
	}
	if d := c.st.writeTimeout; d > 0 && c.tc.Unsent() > 0 {
		c.tc.SetWriteTimeout(d)
	}
	whole := c.parser == nil && !c.is(skipping|collecting|consuming) && !c.hasPending()
	if c.is(ended) || whole {
		c.tc.Close()
		return
	}
	c.flags |= lingers
	if m := c.more; m != nil {
		m.dropped, m.pending = 0, nil
	}
	c.tc.WriteEOF()
	c.st.lingering.add(c)
	if c.is(readsPaused) {
		c.flags &^= readsPaused
		c.tc.ResumeReading()
	}
}

// dropTail counts what comes after the end.
func (c *conn) dropTail(n int) {
	m := c.extra()
	if m.dropped += int64(n); m.dropped > lingerLimit {
		c.tc.Close()
	}
}

// EOFReceived is the peer's end. It may still read.
func (c *conn) EOFReceived(*transport.Conn) (keepOpen bool) {
	c.flags |= ended
	x := c.x
	if x == nil {
		return c.hasPending() && !c.is(lingers) || c.is(switching)
	}
	if !x.complete {
		x.closes = true
		x.body.fail(io.ErrUnexpectedEOF)
	}
	if !x.complete || !c.hasPending() {
		x.cancel(ErrClientGone)
	}
	return true
}

// cause is why requests of this connection end with it.
func (c *conn) cause() error {
	if c.st.cause != nil {
		return c.st.cause
	}
	return ErrClientGone
}

// ConnectionLost is the end.
func (c *conn) ConnectionLost(_ *transport.Conn, err error) {
	c.flags |= gone
	c.leave()
	cause := c.cause()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		cause = ErrTimeout
	}
	if x := c.x; x != nil {
		x.cancel(cause)
		x.body.fail(cause)
	}
	c.hasRoom(cause)
	if p := c.parser; p != nil && !c.is(consuming) {
		c.parser = nil
		p.Reset()
		c.st.giveParser(p)
	}
	c.more = nil
}

// headTooLate is for a header that did not come in time. A client that has sent
// nothing at all is not told.
func (c *conn) headTooLate() {
	if c.parser == nil {
		c.tc.Close()
		return
	}
	c.st.out = appendRefusal(c.st.out, http.StatusRequestTimeout, nil)
	c.flushLean()
	c.close()
}

func (c *conn) idleTooLong() { c.tc.Close() }

// bodyTooLate is for a body that did not come in time. If it was the handler that did
// not read it, the client gets more time.
func (c *conn) bodyTooLate() {
	x := c.x
	switch {
	case c.is(readsPaused):
		c.st.bodies.add(c)
	case x != nil:
		x.closes = true
		x.body.fail(ErrTimeout)
		x.cancel(ErrTimeout)
	default:
		c.close()
	}
}

func (c *conn) lingeredLong() { c.tc.Close() }

// appendRefusal appends the answer to a request that cannot be served, after which
// the connection is closed. Why may be nil.
func appendRefusal(dst []byte, status int, why error) []byte {
	text := strconv.Itoa(status) + " " + http.StatusText(status)
	if why != nil {
		text += ": " + why.Error()
	}
	dst = http1.AppendStatusLine(dst, http1.HTTP11, status)
	dst = append(dst, "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"...)
	dst = http1.AppendContentLength(dst, int64(len(text)))
	dst = append(dst, "\r\n"...)
	return append(dst, text...)
}
