package web

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/transport"
)

// Refusal describes a request that was answered without a handler.
type Refusal struct {
	Conn   *transport.Conn
	Method string // as far as the request line was understood
	Target string // the same
	Status int    // of the answer
}

// refuse handles bytes that cannot be parsed. Nothing behind them is read as a request. A
// request gets one answer: if a handler is running, its read of the body fails and the
// answer is the handler's; if the request was answered already, there is no other answer.
func (c *conn) refuse(p *http1.RequestParser, err error) {
	var fault *http1.Error
	errors.As(err, &fault)
	switch c.input {
	case inputBody:
		c.expect(inputBroken)
		if fault == http1.ErrBodyTooLarge {
			err = &http.MaxBytesError{Limit: c.st.sv.server.MaxBodyBytes}
		}
		c.failBody(err)
	case inputSkip, inputSkipLast:
		c.close()
	default:
		c.answerError(p, fault.Status, fault)
	}
}

// closeAfterAnswer makes the request that is being answered the connection's last.
func (c *conn) closeAfterAnswer() {
	switch c.input {
	case inputBody:
		c.expect(inputBroken)
	case inputHold:
		c.expect(inputHoldLast)
	}
}

// close ends the connection after what was written. Unless the peer has closed its sending
// side, the connection lingers: what it receives is dropped for lingerTime. A socket that
// is closed when more bytes arrive resets the connection, and the peer may then lose the
// last response. Clients send more than the last request: other requests, a body that was
// not asked for, the end of TLS.
func (c *conn) close() {
	if c.phase != connOpen {
		return
	}
	c.leave()
	if len(c.st.out) > 0 {
		c.flushLean()
	}
	if c.is(peerEOF) {
		c.hangUp()
		return
	}
	c.enter(connLingering)
	if c.extra != nil {
		c.extra.kept = nil
	}
	c.tc.WriteEOF()
	c.st.lingering.add(c)
	c.resumeReading()
}

// lingerTime is how long bytes are dropped after the last response. Tests that take
// longer to send than a busy machine allows set it.
var lingerTime = 500 * time.Millisecond

// hangUp closes the connection once everything was sent. The peer has to read that within
// the write time-out.
func (c *conn) hangUp() {
	if h := c.h2(); h != nil && c.phase == connOpen && !c.is(peerEOF) {
		h.leave() // the peer is told first
		return
	}
	c.leave()
	if c.phase == connLost {
		return
	}
	c.enter(connClosing)
	c.timeWrites() // even if nothing waits yet: small writes are sent at the end of the turn
	c.tc.Close()
}

// EOFReceived is called when the peer has closed its sending side. It may still read.
func (c *conn) EOFReceived(*transport.Conn) (keepOpen bool) {
	c.marks |= peerEOF
	if c.phase == connLingering || c.phase == connClosing {
		return false
	}
	switch c.input {
	case inputFrames:
		c.extra.h2.settle()
	case inputPreface:
		c.hangUp()
	default:
		c.settle()
	}
	return true
}

// cause returns why requests of the connection end when the connection does.
func (c *conn) cause() error {
	if c.st.closed || c.st.sv.closed.Load() {
		return http.ErrServerClosed
	}
	return ErrClientGone
}

// ConnectionLost ends the request under way with the connection.
func (c *conn) ConnectionLost(_ *transport.Conn, err error) {
	c.enter(connLost)
	c.leave()
	delete(c.st.remotes, c)
	if o := c.st.observer; o != nil {
		defer o.moved(c, http.StateClosed)
	}
	cause := c.cause()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		cause = errTimeout
	}
	if c.answering() { // calls that wait fail with the cause, not as cancelled
		c.failBody(cause)
		c.wakeWriters(cause)
		c.cancelRequest(cause)
	}
	if d := c.deferral(); d != nil {
		d.h.Lost()
	}
	if h := c.h2(); h != nil {
		h.lost(cause)
	}
	c.dropParser()
	c.extra = nil
}

// headTimedOut is called when a request's head did not come in time. A client that has
// sent nothing at all gets no answer.
func (c *conn) headTimedOut() {
	if h := c.h2(); h != nil {
		h.quit(http2.NoError)
		return
	}
	if !c.partial() {
		c.hangUp()
		return
	}
	c.answerError(c.extra.parser, http.StatusRequestTimeout, nil)
}

// awaitsContinue reports whether the client waits for a 100 before it sends the body.
func (c *conn) awaitsContinue() bool {
	if d := c.deferral(); d != nil {
		return d.awaits
	}
	return c.x != nil && c.x.body != nil && c.x.body.awaits.Load() == continueAwaited
}

// bodyTimedOut is called when a request's body did not come in time. While reading is
// paused because the handler does not read the body, or the client waits for a 100, the
// client gets more time.
func (c *conn) bodyTimedOut() {
	switch {
	case c.is(readsPaused), c.awaitsContinue():
		c.st.bodies.add(c)
	case c.answering():
		c.closeAfterAnswer()
		c.failBody(errTimeout)
		c.cancelRequest(errTimeout)
	default:
		c.close()
	}
}

// answerError answers a request that cannot be served and closes the connection. The
// answer includes why, which may be nil. p has what was parsed of the request; it is nil if
// a lean handler has seen the request.
func (c *conn) answerError(p *http1.RequestParser, status int, why error) {
	if refused := c.st.sv.server.Refused; refused != nil && p != nil {
		refused(Refusal{Conn: c.tc, Method: string(p.Method()), Target: string(p.Target()), Status: status})
	}
	text := strconv.Itoa(status) + " " + http.StatusText(status)
	if why != nil {
		text += ": " + why.Error()
	}
	b := http1.AppendStatusLine(c.st.out, http1.HTTP11, status)
	b = append(b, c.st.dateLine()...)
	c.st.out = appendErrorText(b, text)
	c.close()
}

// appendErrorText appends the rest of the header and the body of an error response.
func appendErrorText(b []byte, text string) []byte {
	b = append(b, "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"...)
	b = http1.AppendContentLength(b, int64(len(text)))
	b = append(b, "\r\n"...)
	return append(b, text...)
}

// refusePlain returns the answer to a plain request on a port that expects TLS; first is
// the beginning of the request. Other bytes may belong to any protocol and get no answer.
func refusePlain(first []byte) []byte {
	switch string(first) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO":
	default:
		return nil
	}
	b := http1.AppendStatusLine(nil, http1.HTTP11, http.StatusBadRequest)
	return appendErrorText(b, "This port speaks HTTPS, and the request came as plain HTTP.\n")
}
