package web

import (
	"errors"
	"net/http"

	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/transport"
)

// Upgrade answers a request with 101 and header, and gives the connection to p: on its
// loop p is told of the connection made, of data that came early, and of
// everything after; of one that is lost by then, with ErrClientGone or what the server
// has ended for. The fields Connection and Upgrade are added if header has none.
// It may be called by every kind of handler, before anything was written; the
// handler has nothing more to do then, and the request's context ends when it returns.
//
// If w is not, and does not by Unwrap lead to, a ResponseWriter of this package, the
// error is errors.ErrUnsupported.
func Upgrade(w http.ResponseWriter, r *http.Request, header http.Header, p transport.Protocol) error {
	rw := own(w)
	if rw == nil {
		return errUnsupported
	}
	if err := rw.enter(); err != nil {
		return err
	}
	defer rw.leave()
	if rw.status != 0 && !rw.hijacked {
		return errWritten
	}
	head, err := upgradeHead(r, header)
	if err != nil {
		return err
	}
	return rw.x.st.do(func() error {
		if !rw.x.complete && !rw.hijacked {
			return errIncomplete
		}
		if err := rw.detach(); err != nil {
			return err
		}
		rw.x.c.tc.Write(head)
		rw.x.st.l.Internal().CallSoon(loopcore.RunAtClose, func() { rw.x.c.become(p) })
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
	errWritten    = errors.New("web: the response has begun")
	errIncomplete = errors.New("web: the request's body was not read")
)

// detach takes the connection away from the server's own protocol, on the loop. What
// comes from now on is kept.
func (w *response) detach() error {
	c := w.x.c
	switch {
	case w.hijacked:
		return http.ErrHijacked
	case c.is(gone | lingers):
		return c.cause()
	}
	w.hijacked = true
	w.x.deadlines.cancel()
	c.flags |= switching
	c.leave()
	delete(c.st.remotes, c)
	if h := c.st.observer; h != nil {
		h.moved(c, http.StateHijacked)
	}
	if c.is(timesWrites) {
		c.tc.SetWriteTimeout(0)
	}
	return nil
}

// become has another protocol go on.
func (c *conn) become(p transport.Protocol) {
	tc := c.tc
	if c.is(gone) { // before p could be told of it
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
	if c.more != nil {
		early = c.more.pending
	}
	tc.SetProtocol(p)
	if c.is(readsPaused) {
		tc.ResumeReading() // in a coming turn; p may pause it before
	}
	p.ConnectionMade(tc)
	feed(tc, p, early)
	if c.is(ended) && !tc.IsClosing() {
		if eof, ok := p.(transport.EOFReceiver); !ok || !eof.EOFReceived(tc) {
			tc.Close()
		}
	}
	if c.is(drains) && !tc.IsClosing() {
		drainUpgraded(tc)
	}
	returned = true
}

// feed brings a protocol what came before it.
func feed(tc *transport.Conn, p transport.Protocol, data []byte) {
	into, buffered := p.(transport.BufferedProtocol)
	for len(data) > 0 && !tc.IsClosing() {
		if !buffered {
			p.DataReceived(tc, data)
			return
		}
		n := copy(into.Buffer(tc), data)
		into.BufferUpdated(tc, n)
		data = data[n:]
	}
}
