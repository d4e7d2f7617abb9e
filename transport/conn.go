package transport

import (
	"cmp"
	"errors"
	"io"
	"net"

	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// Conn is a connection: a TCP or Unix socket, or a pipe. Listen, Connect and Wrap
// make them.
type Conn struct {
	socket socket
	st     *station
	proto  Protocol
	server *Server // nil if no server accepted it
	unsent *unsent // nil while nothing waits to be sent
	extra  *extra  // nil while nothing unusual was asked for
	tls    *secure // nil on a plain connection
	in     uint64  // bytes received
	out    uint64  // bytes sent
	state  connState
}

// socket is a sock.Conn whose methods are not the Conn's.
type socket struct{ sock.Conn }

type connState uint16

const (
	pausedReading connState = 1 << iota
	pausedWriting           // the protocol was told so
	closing                 // no more is read; ends when all is sent
	shutting                // the sending side ends when all is sent
	lost                    // ConnectionLost was called, or is about to be
	gathered                // some of its bytes wait for the end of the turn
	buffered                // the protocol is a BufferedProtocol
	busy                    // it is queued to read on
	unmade                  // ConnectionMade is still to come
	broken                  // lost with an error
	toldToPause             // PauseWriting was the last of the two that was called
	telling                 // a callback is queued that calls one of the two
	shaking                 // the handshake of TLS is under way
)

func (c *Conn) is(s connState) bool { return c.state&s != 0 }

// newConn makes the connection on fd, which it closes if it fails.
func (st *station) newConn(fd int, kind sock.Kind, p Protocol, s *Server) (*Conn, error) {
	c := &Conn{st: st, server: s}
	c.setProtocol(p)
	if err := c.socket.Init(st.hub, fd, kind, (*owner)(c)); err != nil {
		return nil, err
	}
	return c, nil
}

// owner is what a Conn is to its socket.
type owner Conn

// SocketReady writes and reads what has become possible.
func (o *owner) SocketReady() {
	c := (*Conn)(o)
	returned := false
	defer func() {
		if !returned {
			c.lose(errPanicked)
		}
	}()
	if c.unsent != nil && c.socket.Writable() {
		c.drain()
	}
	if c.is(shaking) && !c.is(lost) {
		c.tls.shake.advance()
		returned = true
		return
	}
	c.read()
	if err := c.socket.Failure(); err != nil {
		c.lose(c.fault("read", err))
	}
	returned = true
}

var errPanicked = errors.New("transport: a callback of the protocol panicked")

// guarded calls a callback. If it panics the connection is lost; the loop's OnPanic
// hears of it.
func (c *Conn) guarded(callback func()) {
	returned := false
	defer func() {
		if !returned {
			c.lose(errPanicked)
		}
	}()
	callback()
	returned = true
}

// SocketOrphaned is called when the loop is closed.
func (o *owner) SocketOrphaned() {
	c := (*Conn)(o)
	if !c.is(lost) {
		c.state |= lost | broken
		c.detach()
		c.socket.Close()
		c.end(net.ErrClosed)
	}
}

// Loop is the loop that the connection is on. It may be asked for from any
// goroutine.
func (c *Conn) Loop() *loop.Loop { return c.st.hub.L }

// Protocol is who is told of what happens.
func (c *Conn) Protocol() Protocol {
	c.only("Protocol")
	return c.proto
}

// SetProtocol has another protocol be told from now on, as after an upgrade. It is
// not told of a connection made, but is told to pause if writing is paused.
func (c *Conn) SetProtocol(p Protocol) {
	c.only("SetProtocol")
	c.setProtocol(p)
	c.state &^= toldToPause
	c.tellPauser()
}

func (c *Conn) setProtocol(p Protocol) {
	if p == nil {
		panic("transport: a nil Protocol")
	}
	c.proto = p
	c.state &^= buffered
	if _, ok := p.(BufferedProtocol); ok {
		c.state |= buffered
	}
}

func (c *Conn) only(op string) {
	if c.st.hub.L.Foreign() {
		panic("transport: " + op + " called from a goroutine that is not the loop's; use Post")
	}
}

// maxReads is how often one connection is read from before others have a turn.
const maxReads = 16

// read brings the protocol what there is.
func (c *Conn) read() {
	for range maxReads {
		if c.is(unmade|pausedReading|shaking|closing|lost) || !c.readable() {
			return
		}
		buf := c.st.hub.Buf
		if c.is(buffered) {
			if buf = c.proto.(BufferedProtocol).Buffer(c); len(buf) == 0 {
				panic("transport: Buffer returned an empty slice")
			}
			if c.is(pausedReading | closing | lost) {
				return
			}
		}
		n, err := c.receive(buf)
		if n > 0 {
			c.hears()
			if c.is(buffered) {
				c.proto.(BufferedProtocol).BufferUpdated(c, n)
			} else {
				c.proto.DataReceived(c, buf[:n])
				c.st.hub.Poison(buf[:n])
			}
		}
		switch {
		case err == nil:
		case err == errAgain:
			return
		case err == io.EOF:
			c.eof()
			return
		default:
			c.lose(c.fault("read", err))
			return
		}
	}
	c.readOn()
}

func (c *Conn) readable() bool {
	if c.tls != nil {
		return c.tls.readable()
	}
	return c.socket.Readable()
}

// receive reads what is there, like the socket's Read.
func (c *Conn) receive(p []byte) (int, error) {
	if c.tls != nil {
		return c.tls.read(p)
	}
	n, err := c.socket.Read(p)
	c.in += uint64(n)
	return n, err
}

// readOn has the connection read in a coming turn.
func (c *Conn) readOn() {
	if c.is(busy) {
		return
	}
	c.state |= busy
	c.st.hub.L.CallSoonWith(loop.DropAtClose, func() {
		c.state &^= busy
		(*owner)(c).SocketReady()
	})
}

func (c *Conn) eof() {
	if r, ok := c.proto.(EOFReceiver); ok && r.EOFReceived(c) {
		return
	}
	c.beginClose()
}

// PauseReading stops DataReceived until ResumeReading: what the peer sends then
// waits in the system, and at last with the peer. So does its end, and that it is
// gone may not be noticed meanwhile.
func (c *Conn) PauseReading() {
	c.only("PauseReading")
	if c.is(pausedReading) {
		return
	}
	c.state |= pausedReading
	if !c.is(shaking) {
		c.socket.PauseReading()
	}
}

// ResumeReading lets data come again.
func (c *Conn) ResumeReading() {
	c.only("ResumeReading")
	if !c.is(pausedReading) {
		return
	}
	c.state &^= pausedReading
	if c.is(shaking | closing | lost) {
		return
	}
	c.resumes()
	if err := c.socket.ResumeReading(); err != nil {
		c.lose(c.fault("read", err))
		return
	}
	if c.readable() {
		c.readOn()
	}
}

// IsClosing tells whether the connection was closed, or is about to be.
func (c *Conn) IsClosing() bool {
	c.only("IsClosing")
	return c.is(closing | lost)
}

// Close ends the connection once everything written was sent. Nothing more is
// received. Closing again does nothing. A peer that does not read keeps it open:
// SetIdleTimeout, or Abort after a while, puts an end to that.
func (c *Conn) Close() error {
	c.only("Close")
	c.beginClose()
	return nil
}

func (c *Conn) beginClose() {
	if c.is(closing | lost) {
		return
	}
	c.state |= closing
	if !c.is(shaking) {
		c.socket.PauseReading()
	}
	if !c.is(gathered) && c.unsent == nil || c.is(unmade) && c.is(shaking) {
		c.sent()
	}
}

// Abort ends the connection at once. What waits to be sent is dropped.
func (c *Conn) Abort() {
	c.only("Abort")
	c.lose(nil)
}

// lose ends the connection, and has the protocol told.
func (c *Conn) lose(err error) {
	if c.is(lost) {
		return
	}
	c.state |= lost
	if err != nil {
		c.state |= broken
	}
	c.detach()
	c.socket.Close()
	c.st.hub.L.CallSoonWith(loop.RunAtClose, func() { c.end(err) })
}

// detach lets go of what the connection holds besides its socket.
func (c *Conn) detach() {
	if c.extra != nil {
		c.extra.timer.Cancel()
	}
	c.dropFiles()
	if c.is(shaking) {
		c.tls.shake.abandon()
	}
}

// end is the last that the protocol hears. Each step is taken even if the one
// before it panics.
func (c *Conn) end(err error) {
	defer func() {
		if c.server != nil {
			c.server.forget()
		}
	}()
	defer func() {
		switch {
		case !c.is(unmade):
			c.proto.ConnectionLost(c, err)
		case c.is(shaking) && err != nil:
			c.tls.shake.over(err)
		}
	}()
	c.unsent = nil
	c.abandon(cmp.Or(err, net.ErrClosed))
}

// fault is a system's error as package net would return it.
func (c *Conn) fault(op string, err error) error {
	local, remote := c.addrs()
	return sock.Error(op, c.network(), local, remote, err)
}

func (c *Conn) addrs() (local, remote net.Addr) {
	fd := c.socket.FD()
	if fd < 0 {
		return nil, nil
	}
	return c.st.hub.Addrs(fd, c.network())
}

func (c *Conn) network() string {
	fd := c.socket.FD()
	if fd < 0 {
		return ""
	}
	a, err := c.st.hub.K.LocalAddr(fd)
	if err != nil {
		return "pipe"
	}
	return sock.NetworkOf(a.Family())
}

// LocalAddr is the address of this end. It is never nil: once the connection is lost,
// it is one that names nothing, ":0" for TCP.
func (c *Conn) LocalAddr() net.Addr {
	c.only("LocalAddr")
	local, _ := c.ends()
	return local
}

// RemoteAddr is the address of the peer. It is never nil: if the peer has reset the
// connection, which may be before ConnectionMade, or once it is lost, it is one that
// names nothing, ":0" for TCP.
func (c *Conn) RemoteAddr() net.Addr {
	c.only("RemoteAddr")
	_, remote := c.ends()
	return remote
}

// ends are the addresses, also where they are not known.
func (c *Conn) ends() (local, remote net.Addr) {
	local, remote = c.addrs()
	if local == nil {
		local = c.socket.UnknownAddr()
	}
	if remote == nil {
		remote = c.socket.UnknownAddr()
	}
	return local, remote
}
