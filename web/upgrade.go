package web

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/transport"
)

// Upgrade answers a request with 101 and header, and passes the connection to p. It adds
// the fields Connection and Upgrade if header has none. Any kind of handler can call it,
// before it has written anything. The handler has nothing more to do then, and the
// request's context ends when it returns.
//
// The methods of p are called on the connection's loop: ConnectionMade, then DataReceived
// with what was received early, then as the transport describes. If the connection is lost
// before that, p gets ConnectionMade and ConnectionLost with ErrClientGone or the reason
// why the server ended.
//
// When the server drains, and p has a method Draining(*transport.Conn), the server calls it once, on the
// connection's loop, and waits for the connection's end. Otherwise it does not wait for the
// connection, like net/http for a hijacked one.
//
// If w is not a ResponseWriter of this package, and its Unwrap methods do not lead to one,
// the error is errors.ErrUnsupported.
func Upgrade(w http.ResponseWriter, r *http.Request, header http.Header, p transport.Protocol) error {
	rw := responseOf(w)
	if rw == nil {
		return errUnsupported
	}
	if err := rw.enter(); err != nil {
		return err
	}
	defer rw.leave()
	if rw.s != nil {
		return errStream
	}
	if rw.phase == draftHeaded || rw.phase == draftCommitted {
		return errWritten
	}
	head, err := upgradeHead(r, header)
	if err != nil {
		return err
	}
	return rw.x.st.do(func() error {
		if rw.phase != draftTaken && rw.x.receiving() {
			return errIncomplete
		}
		if err := rw.detach(); err != nil {
			return err
		}
		rw.x.c.tc.Write(head)
		rw.x.st.l.Internal().CallSoon(atclose.Run, func() { rw.x.c.switchTo(p) })
		return nil
	})
}

func upgradeHead(r *http.Request, header http.Header) ([]byte, error) {
	h := header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	if h.Get("Connection") == "" {
		h.Set("Connection", "Upgrade")
	}
	if h.Get("Upgrade") == "" {
		h.Set("Upgrade", r.Header.Get("Upgrade"))
	}
	b := http1.AppendStatusLine(nil, http1.HTTP11, http.StatusSwitchingProtocols)
	b, err := http1.AppendHeader(b, interim(h))
	return append(b, "\r\n"...), err
}

// Why a connection cannot be taken away from the server.
var (
	errStream     = fmt.Errorf("web: a stream of HTTP/2 is not a connection: %w", errors.ErrUnsupported)
	errWritten    = errors.New("web: the response has begun")
	errIncomplete = errors.New("web: the request's body has not come as a whole")
)

// detach ends the server's use of the connection, on the loop. What is received from now on
// is kept.
func (w *response) detach() error {
	c := w.x.c
	switch {
	case w.phase == draftTaken:
		return http.ErrHijacked
	case c.phase != connOpen:
		return c.cause()
	}
	w.phase = draftTaken
	w.dropBuffers() // the handler may run as long as the connection is open
	w.x.deadlines.cancel()
	c.enter(connSwitched)
	c.leave()
	delete(c.st.remotes, c)
	if o := c.st.observer; o != nil {
		o.moved(c, http.StateHijacked)
	}
	if c.output != outputFree {
		c.output = outputFree
		c.tc.SetWriteTimeout(0)
	}
	return nil
}

// switchTo makes p the connection's protocol.
func (c *conn) switchTo(p transport.Protocol) {
	tc := c.tc
	if c.phase == connLost {
		defer p.ConnectionLost(tc, c.cause()) // whatever p does at its beginning
		p.ConnectionMade(tc)
		return
	}
	returned := false
	defer func() {
		if !returned {
			tc.Abort()
		}
	}()
	var early []byte
	if c.extra != nil {
		early = c.extra.kept
	}
	tc.SetProtocol(p)
	if c.is(readsPaused) {
		tc.ResumeReading() // takes effect in a later turn; p may pause it before
	}
	p.ConnectionMade(tc)
	feed(tc, p, early)
	if c.is(peerEOF) && !tc.IsClosing() {
		if eof, ok := p.(transport.EOFReceiver); !ok || !eof.EOFReceived(tc) {
			tc.Close()
		}
	}
	if c.is(drainSeen) && !tc.IsClosing() {
		notifyDrain(tc)
	}
	returned = true
}

// feed passes data that was received early to p.
func feed(tc *transport.Conn, p transport.Protocol, data []byte) {
	into, buffered := p.(transport.BufferedProtocol)
	for len(data) > 0 && !tc.IsClosing() {
		if !buffered {
			p.DataReceived(tc, data)
			return
		}
		n := copy(into.Buffer(tc), data)
		if n == 0 {
			panic("web: Buffer returned an empty slice")
		}
		into.BufferUpdated(tc, n)
		data = data[n:]
	}
}
