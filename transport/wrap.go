package transport

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// Wrap makes a connection from an open descriptor: an *os.File that is a pipe, a
// terminal or a socket, a *net.TCPConn or a *net.UnixConn. It duplicates the descriptor.
// The caller still owns c and may close it at any time, but should not read or write it
// meanwhile. The descriptor becomes non-blocking for all processes that share it, except
// a terminal, which is opened again. For a descriptor number, pass os.NewFile's result.
//
// ConnectionMade is called in the next turn. The writing end of a pipe never delivers
// data, and is lost with EPIPE when the reading end is closed. The reading end refuses
// writes.
//
// Wrap fails with a *net.OpError. It wraps errors.ErrUnsupported for a regular file,
// ENOTCONN for a socket without a peer, EPROTOTYPE for a socket that is not a stream,
// and errors.ErrUnsupported in a simulation.
func Wrap(l *loop.Loop, c syscall.Conn, p Protocol) (*Conn, error) {
	st := loopStateOf("Wrap", l)
	fd, shape, err := st.sockets.Adopt(c)
	if err != nil {
		return nil, sock.WrapError(err)
	}
	return st.wrap(fd, shape, p)
}

// wrapListener accepts on a socket that already listens.
func (sh *shard) wrapListener(ln syscall.Conn) error {
	fd, network, err := sh.st.adoptListener(ln)
	if err != nil {
		return err
	}
	sh.s.network = network
	sh.shared = true
	return sh.watch(fd)
}

// adoptListener duplicates the descriptor of a listening stream socket.
func (st *loopState) adoptListener(ln syscall.Conn) (fd int, network string, err error) {
	fd, shape, err := st.sockets.Adopt(ln)
	if err != nil {
		return -1, "", sock.WrapError(err)
	}
	if !shape.Listening || shape.Type != kernel.Stream {
		st.sockets.K.CloseFD(fd)
		return -1, "", sock.WrapError(syscall.EPROTOTYPE)
	}
	network = "tcp"
	if a, err := st.sockets.K.LocalAddr(fd); err == nil {
		network = sock.NetworkOf(a.Family(), kernel.Stream)
	}
	return fd, network, nil
}

// wrap makes the connection on fd. If it fails, it closes fd.
func (st *loopState) wrap(fd int, shape kernel.Shape, p Protocol) (*Conn, error) {
	k := st.sockets.K
	var err error
	switch {
	case !shape.Socket:
	case shape.Type != kernel.Stream:
		err = syscall.EPROTOTYPE
	case shape.Listening:
		err = fmt.Errorf("the socket listens; use Listen with Options.Sock: %w", syscall.EPROTOTYPE)
	default:
		_, err = k.PeerAddr(fd)
	}
	if err != nil {
		k.CloseFD(fd)
		return nil, sock.WrapError(err)
	}
	c := &Conn{st: st, marks: unannounced}
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
	if err := c.socket.Init(st.sockets, fd, kind, o); err != nil {
		return nil, sock.WrapError(err)
	}
	if shape.WriteOnly {
		c.socket.CloseRead()
	}
	if shape.ReadOnly {
		c.phase.enter(phaseShutting)
		c.socket.CloseWrite()
	}
	st.sockets.L.Internal().CallSoon(atclose.Drop, c.start)
	return c, nil
}

// start announces a wrapped connection and starts reading.
func (c *Conn) start() {
	c.marks &^= unannounced
	c.announce()
	if !c.is(pausedReading) && !c.phase.closing() && c.socket.Readable() {
		c.readSoon()
	}
}

// writeOnlyOwner is the sock.Owner of the writing end of a pipe. Nothing can be read
// from it, not even EOF.
type writeOnlyOwner Conn

// Ready ends the connection if the reading end is closed.
func (o *writeOnlyOwner) Ready(r loop.Ready) {
	c := (*Conn)(o)
	c.socket.Note(r)
	if c.socket.HungUp() {
		c.lose(c.opError("write", syscall.EPIPE))
		return
	}
	c.proceed()
}

// Socket returns the socket.
func (o *writeOnlyOwner) Socket() *sock.Conn { return &o.socket.Conn }

// SocketOrphaned is called when the loop is closed.
func (o *writeOnlyOwner) SocketOrphaned() { (*owner)(o).SocketOrphaned() }

// errUnsent reports that unsent bytes would be lost or reordered.
var errUnsent = errors.New("transport: the connection has unsent bytes; wait with AfterFlush")

// Detach returns the connection as a net.Conn, and calls ConnectionLost with nil. No
// data is lost: data that was not received yet can be read from the net.Conn, and Detach
// fails while bytes are unsent. It fails with errors.ErrUnsupported for a
// pipe, for a connection secured by TLS, and in a simulation.
//
// To place a connection on another loop, post a function there that calls Wrap with the net.Conn.
func (c *Conn) Detach() (net.Conn, error) {
	c.checkLoop("Detach")
	if c.is(hasGathered) {
		c.st.flush()
	}
	switch {
	case c.phase.closing():
		return nil, c.opError("detach", net.ErrClosed)
	case c.unsent != nil && !c.unsent.empty():
		return nil, c.opError("detach", errUnsent)
	case c.network() == "pipe" || c.tls != nil:
		return nil, c.opError("detach", syscall.EOPNOTSUPP)
	}
	nc, err := c.st.sockets.K.Native().NetConn(c.socket.FD())
	if err != nil {
		return nil, c.opError("detach", err)
	}
	c.lose(nil)
	return nc, nil
}
