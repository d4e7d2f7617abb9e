package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
)

// connObserver keeps what ConnState and ConnContext need of a loop's connections. A
// server without these hooks has none. Loop goroutine only.
type connObserver struct {
	state   func(net.Conn, http.ConnState)
	context func(context.Context, net.Conn) context.Context
	base    context.Context
	conns   map[*conn]*observedConn
}

// observedConn is the net.Conn that ConnState and ConnContext are called with.
type observedConn struct {
	st            *loopState
	c             *conn
	local, remote net.Addr
	state         http.ConnState
	ctx           context.Context // the base of its requests' contexts
}

func newObserver(sv *Service) *connObserver {
	s := sv.server
	if s.ConnState == nil && s.ConnContext == nil {
		return nil
	}
	o := &connObserver{state: s.ConnState, context: s.ConnContext, base: sv.base, conns: make(map[*conn]*observedConn)}
	if o.base == nil {
		o.base = context.Background()
	}
	return o
}

// made registers a new connection.
func (o *connObserver) made(c *conn) {
	at := &observedConn{st: c.st, c: c, local: c.tc.LocalAddr(), remote: c.tc.RemoteAddr(), ctx: o.base}
	o.conns[c] = at
	if o.state != nil {
		o.state(at, http.StateNew)
	}
	if o.context != nil {
		at.ctx = o.context(o.base, at)
		if at.ctx == nil {
			panic("web: ConnContext returned a nil context")
		}
	}
}

// moved calls ConnState if the connection's state has changed.
func (o *connObserver) moved(c *conn, state http.ConnState) {
	at := o.conns[c]
	if at == nil || at.state == state {
		return
	}
	at.state = state
	if state == http.StateHijacked || state == http.StateClosed {
		delete(o.conns, c)
	}
	if o.state != nil {
		o.state(at, state)
	}
}

// baseContext returns the context that the connection's requests derive from, nil for
// context.Background().
func (c *conn) baseContext() context.Context {
	if o := c.st.observer; o != nil {
		if at := o.conns[c]; at != nil {
			return at.ctx
		}
	}
	return c.st.sv.base
}

// errServers is the error of methods that only the server may use.
var errServers = fmt.Errorf("web: only the server reads from, writes to and accepts connections here: %w", errors.ErrUnsupported)

// Read fails: the server reads. A handler can hijack the connection to read from it.
func (*observedConn) Read([]byte) (int, error) { return 0, errServers }

// Write fails like Read.
func (*observedConn) Write([]byte) (int, error) { return 0, errServers }

// Close ends the connection. It does not wait for the loop: the caller may hold a lock
// that ConnState takes on the loop.
func (at *observedConn) Close() error {
	abort := func() {
		if at.c.phase != connLost && at.c.phase != connSwitched {
			at.c.tc.Abort()
		}
	}
	if at.st.l.Owns() {
		abort()
	} else {
		_ = at.st.l.Internal().Post(atclose.Drop, abort) // a closed loop has ended the connection
	}
	return nil
}

// LocalAddr returns the server's address.
func (at *observedConn) LocalAddr() net.Addr { return at.local }

// RemoteAddr returns the client's address.
func (at *observedConn) RemoteAddr() net.Addr { return at.remote }

// SetDeadline fails: use the time-outs of Server, or http.ResponseController.
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

// Addr returns the address that the server listens on.
func (ln listening) Addr() net.Addr { return ln.addr }
