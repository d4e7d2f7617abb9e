package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spindleloop/spindle/internal/loopcore"
)

// connObserver keeps what ConnState and ConnContext need of a loop's connections. A
// server without these hooks has none. Loop goroutine only.
type connObserver struct {
	state   func(net.Conn, http.ConnState)
	context func(context.Context, net.Conn) context.Context
	base    context.Context
	conns   map[*conn]*observedConn
}

// observedConn is a connection with hooks. It is the net.Conn that the hooks are called with.
type observedConn struct {
	st            *loopState
	c             *conn
	local, remote net.Addr
	state         http.ConnState
	ctx           context.Context // of the connection's requests
}

func newObserver(sv *Service) *connObserver {
	s := sv.server
	if s.ConnState == nil && s.ConnContext == nil {
		return nil
	}
	h := &connObserver{state: s.ConnState, context: s.ConnContext, base: sv.base, conns: make(map[*conn]*observedConn)}
	if h.base == nil {
		h.base = context.Background()
	}
	return h
}

// made is the beginning of a connection.
func (h *connObserver) made(c *conn) {
	at := &observedConn{st: c.st, c: c, local: c.tc.LocalAddr(), remote: c.tc.RemoteAddr(), ctx: h.base}
	h.conns[c] = at
	if h.state != nil {
		h.state(at, http.StateNew)
	}
	if h.context != nil {
		at.ctx = h.context(h.base, at)
		if at.ctx == nil {
			panic("web: ConnContext returned a nil context")
		}
	}
}

// moved calls ConnState if the connection's state has changed.
func (h *connObserver) moved(c *conn, state http.ConnState) {
	at := h.conns[c]
	if at == nil || at.state == state {
		return
	}
	at.state = state
	if state == http.StateHijacked || state == http.StateClosed {
		delete(h.conns, c)
	}
	if h.state != nil {
		h.state(at, state)
	}
}

// baseOf returns the context that requests of the connection derive from, nil for
// context.Background().
func (c *conn) baseOf() context.Context {
	if h := c.st.observer; h != nil {
		if at := h.conns[c]; at != nil {
			return at.ctx
		}
	}
	return c.st.sv.base
}

// errServers is what using a connection or listener fails with that is the server's.
var errServers = fmt.Errorf("web: the server uses it: %w", errors.ErrUnsupported)

// Read fails: the server reads. A handler that wants to read hijacks the connection.
func (*observedConn) Read([]byte) (int, error) { return 0, errServers }

// Write fails like Read.
func (*observedConn) Write([]byte) (int, error) { return 0, errServers }

// Close ends the connection. It does not wait for the loop: the caller may hold a lock
// that ConnState takes on the loop.
func (at *observedConn) Close() error {
	abort := func() {
		if !at.c.is(gone | switching) {
			at.c.tc.Abort()
		}
	}
	if at.st.l.Owns() {
		abort()
	} else {
		_ = at.st.l.Internal().Post(loopcore.DropAtClose, abort) // a closed loop has ended the connection
	}
	return nil
}

// LocalAddr is the address of this end.
func (at *observedConn) LocalAddr() net.Addr { return at.local }

// RemoteAddr is the address of the client.
func (at *observedConn) RemoteAddr() net.Addr { return at.remote }

// SetDeadline fails: see Server for its time-outs, and http.ResponseController.
func (*observedConn) SetDeadline(time.Time) error { return errServers }

// SetReadDeadline fails like SetDeadline.
func (*observedConn) SetReadDeadline(time.Time) error { return errServers }

// SetWriteDeadline fails like SetDeadline.
func (*observedConn) SetWriteDeadline(time.Time) error { return errServers }

// listener returns the listener that BaseContext is called with.
func (sv *Service) listener() net.Listener {
	if sv.ln != nil {
		return sv.ln
	}
	return listening{sv.addr}
}

// listening is the listener of a service that made its own sockets.
type listening struct{ addr net.Addr }

// Accept fails: the server accepts.
func (listening) Accept() (net.Conn, error) { return nil, errServers }

// Close fails: Server.Shutdown and Server.Close end the server.
func (listening) Close() error { return errServers }

// Addr is the address that the server listens on.
func (ln listening) Addr() net.Addr { return ln.addr }
