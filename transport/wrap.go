package transport

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// Wrap makes a connection of something that is open already: an *os.File that is a
// pipe, a terminal or a socket, a *net.TCPConn, a *net.UnixConn. Its descriptor is
// duplicated: c stays the caller's, to be closed at any time, but should not be
// read or written meanwhile. It becomes non-blocking for everybody who shares it,
// except a terminal, which is opened anew.
//
// P is told of the connection made in the next turn. A pipe that can only be written
// never brings data, and is lost with EPIPE when nobody reads it any more; one that
// can only be read refuses writes.
//
// It fails with a *net.OpError: loop.ErrNotPollable for a regular file, ENOTCONN
// for a socket without a peer, EPROTOTYPE for one that is no stream, and where
// there is no real system below, with what is errors.ErrUnsupported.
func Wrap(l *loop.Loop, c syscall.Conn, p Protocol) (*Conn, error) {
	st := stationOf(l)
	fd, shape, err := st.hub.Adopt(c)
	if err != nil {
		return nil, sock.WrapError(err)
	}
	return st.wrap(fd, shape, p)
}

// WrapFD is Wrap of a descriptor, as another language or a parent process hands it
// over. It too is duplicated; the caller closes his.
func WrapFD(l *loop.Loop, fd int, p Protocol) (*Conn, error) {
	st := stationOf(l)
	own, shape, err := st.hub.AdoptFD(fd)
	if err != nil {
		return nil, sock.WrapError(err)
	}
	return st.wrap(own, shape, p)
}

// WrapListener is Listen on a socket that listens already: a *net.TCPListener, a
// *net.UnixListener, or an *os.File that was inherited. It is duplicated like what
// Wrap takes, and both accept while both are open. The path of a Unix socket stays
// with whoever made it.
func WrapListener(l *loop.Loop, ln syscall.Conn, o Options) (*Server, error) {
	if o.Protocol == nil {
		panic("transport: WrapListener without a Protocol")
	}
	st := stationOf(l)
	fd, network, err := st.adoptListener(ln)
	if err != nil {
		return nil, err
	}
	return st.serve(fd, network, o)
}

// WrapListenerGroup is WrapListener for a group, before it runs. The first loop
// accepts and hands connections over to the others, as RoundRobin or FewestConns
// says; the zero Spread means RoundRobin. Close leaves the socket to its other
// owners: the first loop stops accepting as soon as it runs next.
func WrapListenerGroup(g *loop.Group, ln syscall.Conn, o GroupOptions) (*GroupServer, error) {
	if o.Protocol == nil {
		panic("transport: WrapListenerGroup without a Protocol")
	}
	if o.Spread == ReusePort {
		o.Spread = RoundRobin
	}
	gs := &GroupServer{o: o}
	return gs.start(g, "WrapListenerGroup", func(m *member) error {
		fd, network, err := m.st.adoptListener(ln)
		if err != nil {
			return err
		}
		gs.network = network
		m.shared = true
		return m.watch(fd)
	})
}

// adoptListener duplicates the descriptor of a stream socket that listens.
func (st *station) adoptListener(ln syscall.Conn) (fd int, network string, err error) {
	fd, shape, err := st.hub.Adopt(ln)
	if err != nil {
		return -1, "", sock.WrapError(err)
	}
	if !shape.Listening || shape.Type != kernel.Stream {
		st.hub.K.CloseFD(fd)
		return -1, "", sock.WrapError(syscall.EPROTOTYPE)
	}
	network = "tcp"
	if a, err := st.hub.K.LocalAddr(fd); err == nil {
		network = sock.NetworkOf(a.Family())
	}
	return fd, network, nil
}

// wrap makes the connection on fd, which it closes if it fails.
func (st *station) wrap(fd int, shape kernel.Shape, p Protocol) (*Conn, error) {
	k := st.hub.K
	var err error
	switch {
	case !shape.Socket:
	case shape.Type != kernel.Stream:
		err = syscall.EPROTOTYPE
	case shape.Listening:
		err = fmt.Errorf("it listens, and is for WrapListener: %w", syscall.EPROTOTYPE)
	default:
		_, err = k.PeerAddr(fd)
	}
	if err != nil {
		k.CloseFD(fd)
		return nil, sock.WrapError(err)
	}
	c := &Conn{st: st, state: unmade}
	c.setProtocol(p)
	kind := sock.Pipe
	if shape.Socket {
		a, _ := k.LocalAddr(fd)
		kind = sock.KindOf(a.Family())
	}
	var o sock.Owner = (*owner)(c)
	if shape.WriteOnly {
		o = (*writeOnlyOwner)(c)
	}
	if err := c.socket.Init(st.hub, fd, kind, o); err != nil {
		return nil, sock.WrapError(err)
	}
	if shape.WriteOnly {
		c.socket.CloseRead()
	}
	if shape.ReadOnly {
		c.state |= shutting
		c.socket.CloseWrite()
	}
	st.hub.L.CallSoonWith(loop.DropAtClose, c.begin)
	return c, nil
}

// begin tells the protocol of a wrapped connection, and lets data come.
func (c *Conn) begin() {
	c.state &^= unmade
	c.made()
	if !c.is(pausedReading|closing|lost) && c.socket.Readable() {
		c.readOn()
	}
}

// writeOnlyOwner is what the writing end of a pipe is to its socket: nothing can
// be read from it, not even that it ended.
type writeOnlyOwner Conn

// SocketReady ends the connection if nobody reads any more.
func (o *writeOnlyOwner) SocketReady() {
	c := (*Conn)(o)
	if c.socket.HungUp() {
		c.lose(c.fault("write", syscall.EPIPE))
		return
	}
	(*owner)(o).SocketReady()
}

// SocketOrphaned is called when the loop is closed.
func (o *writeOnlyOwner) SocketOrphaned() { (*owner)(o).SocketOrphaned() }

// ErrUnsent says that bytes wait to be sent, and would be lost.
var ErrUnsent = errors.New("transport: bytes wait to be sent; see AfterFlush")

// Detach gives the connection back as one of package net. Nothing is lost: what was
// not received yet is read from it, and while something waits to be sent it is
// refused with ErrUnsent. ConnectionLost is called with nil, as the last call. A
// pipe cannot be detached, nor what is secured by TLS, nor anything where there is
// no real system below: that is errors.ErrUnsupported.
func (c *Conn) Detach() (net.Conn, error) {
	c.only("Detach")
	if c.is(gathered) {
		c.st.flush()
	}
	switch {
	case c.is(closing | lost):
		return nil, c.fault("detach", net.ErrClosed)
	case c.unsent != nil && !c.unsent.empty():
		return nil, c.fault("detach", ErrUnsent)
	case c.network() == "pipe" || c.tls != nil:
		return nil, c.fault("detach", syscall.EOPNOTSUPP)
	}
	nc, err := c.st.hub.K.Native().NetConn(c.socket.FD())
	if err != nil {
		return nil, c.fault("detach", err)
	}
	c.lose(nil)
	return nc, nil
}
