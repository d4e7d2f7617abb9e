package web

import (
	"errors"
	"net/http"
	"os"
	"strconv"

	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/transport"
)

// refuse handles bytes that cannot be parsed. Nothing behind them is read as a request. A
// request has one answer: where a handler is at work it is the handler's, whose read of
// the body fails, and where the answer was given already there is no other.
func (c *conn) refuse(err error) {
	var fault *http1.Error
	errors.As(err, &fault)
	switch x := c.x; {
	case x != nil:
		c.flags |= skipping
		x.closes = true
		x.complete = true
		if fault == http1.ErrBodyTooLarge {
			err = c.st.sv.tooLarge()
		}
		x.body.fail(err)
	case c.is(skipping):
		c.close()
	default:
		c.answerError(fault.Status, fault)
	}
}

// close ends the connection after what was written. If the peer may still be sending, the
// connection lingers: what comes is dropped for lingerTime, however much that is. To
// close a socket with unread bytes resets the connection, and the peer may then lose
// the last response.
func (c *conn) close() {
	if c.is(lingers | gone) {
		return
	}
	c.leave()
	if len(c.st.out) > 0 {
		c.flushLean()
	}
	whole := !c.within() && !c.is(skipping|collecting|consuming) && !c.hasPending()
	if c.is(ended) || whole {
		c.hangUp()
		return
	}
	c.flags |= lingers
	if m := c.more; m != nil {
		m.pending = nil
	}
	c.tc.WriteEOF()
	c.st.lingering.add(c)
	c.readOn()
}

// hangUp closes the connection once everything was sent, for which the peer has to
// read: no longer than it may take for any other response.
func (c *conn) hangUp() {
	c.leave()
	c.flags |= lingers
	c.timeWrites() // also for what does not wait yet: small writes are sent at the end of the turn
	c.tc.Close()
}

// EOFReceived is called when the peer has closed its sending side. It may still read.
func (c *conn) EOFReceived(*transport.Conn) (keepOpen bool) {
	c.flags |= ended
	if c.is(lingers) {
		return false
	}
	c.settle()
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
	delete(c.st.remotes, c)
	if h := c.st.observer; h != nil {
		defer h.moved(c, http.StateClosed)
	}
	cause := c.cause()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		cause = ErrTimeout
	}
	if x := c.x; x != nil { // calls that wait fail with the cause, not as cancelled
		x.body.fail(cause)
		c.hasRoom(cause)
		x.cancel(cause)
	}
	c.dropParser()
	c.more = nil
}

// headTooLate is for a header that did not come in time. A client that has sent
// nothing at all is not told.
func (c *conn) headTooLate() {
	if !c.within() {
		c.hangUp()
		return
	}
	c.answerError(http.StatusRequestTimeout, nil)
}

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

// answerError answers a request that cannot be served, and closes the connection. Why
// may be nil.
func (c *conn) answerError(status int, why error) {
	text := strconv.Itoa(status) + " " + http.StatusText(status)
	if why != nil {
		text += ": " + why.Error()
	}
	b := http1.AppendStatusLine(c.st.out, http1.HTTP11, status)
	b = append(b, c.st.dateLine()...)
	b = append(b, "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"...)
	b = http1.AppendContentLength(b, int64(len(text)))
	b = append(b, "\r\n"...)
	c.st.out = append(b, text...)
	c.close()
}

// refusePlain answers a plain request to a server that expects TLS; first is its beginning.
// Other bytes may be of any protocol, and are not answered.
func refusePlain(first []byte) []byte {
	switch string(first) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO":
	default:
		return nil
	}
	const text = "This port speaks HTTPS, and the request came as plain HTTP.\n"
	b := http1.AppendStatusLine(nil, http1.HTTP11, http.StatusBadRequest)
	b = append(b, "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"...)
	b = http1.AppendContentLength(b, int64(len(text)))
	return append(b, "\r\n"+text...)
}
