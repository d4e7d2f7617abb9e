package web

import (
	"net/http"
	"strconv"

	"github.com/spindleloop/spindle/internal/http1"
)

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
