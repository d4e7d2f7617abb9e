package transport

import (
	"cmp"
	"errors"
	"io"
	"net"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// Conn is a connection: a TCP or Unix socket, or a pipe. Listen, Connect and Wrap make
// connections. All fields belong to the loop goroutine.
type Conn struct {
	socket socket
	st     *loopState
	proto  Protocol
	shard  *shard     // nil if no server accepted it, or after LeaveServer
	unsent *sendQueue // nil while nothing waits to be sent
	extra  *extra     // nil until a timeout, a water mark or AfterFlush needs it
	tls    *tlsLayer  // nil on a plain connection
	in     uint64     // bytes received
	out    uint64     // bytes sent

	phase   phase
	writing writePhase
	marks   connMarks
}

// socket wraps a sock.Conn so that its methods do not become methods of Conn.
type socket struct{ sock.Conn }

// newConn makes the connection on fd. If it fails, it closes fd.
func (st *loopState) newConn(fd int, kind sock.Kind, p Protocol, sh *shard) (*Conn, error) {
	c := &Conn{st: st, shard: sh}
	c.setProtocol(p)
	if err := c.socket.Init(st.sockets, fd, kind, (*owner)(c)); err != nil {
		return nil, err
	}
	return c, nil
}

// owner is the sock.Owner of a Conn.
type owner Conn

// Ready is called by the loop. It writes and reads as far as the socket allows.
func (o *owner) Ready(r loop.Ready) {
	c := (*Conn)(o)
	c.socket.Note(r)
	returned := false
	defer func() {
		if !returned {
			c.lose(errPanicked)
		}
	}()
	if c.unsent != nil && c.socket.Writable() {
		c.drain()
	}
	if c.is(handshaking) && !c.phase.lost() {
		c.tls.handshake.advance()
		returned = true
		return
	}
	c.read()
	if err := c.socket.Failure(); err != nil {
		c.lose(c.opError("read", err))
	}
	returned = true
}

// proceed writes and reads again, as far as the socket allows by what is known already.
func (c *Conn) proceed() { (*owner)(c).Ready(0) }

var errPanicked = errors.New("transport: a callback of the protocol panicked")

// guard calls a callback. If the callback panics, the connection is lost; the panic
// continues to the loop's OnPanic.
func (c *Conn) guard(callback func()) {
	returned := false
	defer func() {
		if !returned {
			c.lose(errPanicked)
		}
	}()
	callback()
	returned = true
}

// Socket returns the socket.
func (o *owner) Socket() *sock.Conn { return &o.socket.Conn }

// SocketOrphaned is called when the loop is closed.
func (o *owner) SocketOrphaned() {
	c := (*Conn)(o)
	if !c.phase.lost() {
		c.phase.enter(phaseFailed)
		c.releaseResources()
		c.socket.Close()
		c.end(net.ErrClosed)
	}
}

// Loop returns the loop that the connection is on. It may be called from any goroutine.
func (c *Conn) Loop() *loop.Loop { return c.st.sockets.L }

// Protocol returns the protocol that receives the connection's events.
func (c *Conn) Protocol() Protocol {
	c.checkLoop("Protocol")
	return c.proto
}

// SetProtocol replaces the protocol, as after an upgrade. ConnectionMade is not called
// again, but PauseWriting is if writing is paused.
func (c *Conn) SetProtocol(p Protocol) {
	c.checkLoop("SetProtocol")
	c.setProtocol(p)
	switch c.writing {
	case writePaused:
		c.writing = writePausing
	case writeResuming:
		c.writing = writeFlowing
	}
	c.notifyPauser()
}

func (c *Conn) setProtocol(p Protocol) {
	if p == nil {
		panic("transport: a nil Protocol")
	}
	c.proto = p
	c.marks &^= buffered
	if _, ok := p.(BufferedProtocol); ok {
		c.marks |= buffered
	}
}

func (c *Conn) checkLoop(op string) {
	if c.st.sockets.L.Internal().Foreign() {
		panic("transport: " + op + " called from a goroutine that is not the loop's; use Post")
	}
}

// maxReads limits the reads from one connection before other callbacks run.
const maxReads = 16

// read delivers received data to the protocol.
func (c *Conn) read() {
	for range maxReads {
		if c.is(unannounced|pausedReading|handshaking) || c.phase.closing() || !c.readable() {
			return
		}
		buf := c.st.sockets.Buf
		if c.is(buffered) {
			if buf = c.proto.(BufferedProtocol).Buffer(c); len(buf) == 0 {
				panic("transport: Buffer returned an empty slice")
			}
			if c.is(pausedReading) || c.phase.closing() {
				return
			}
		}
		n, err := c.receive(buf)
		if n > 0 {
			c.noteReceived()
			if c.is(buffered) {
				c.proto.(BufferedProtocol).BufferUpdated(c, n)
			} else {
				c.proto.DataReceived(c, buf[:n])
				c.st.sockets.Poison(buf[:n])
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
			c.lose(c.opError("read", err))
			return
		}
	}
	c.readSoon()
}

func (c *Conn) readable() bool {
	if c.tls != nil {
		return c.tls.readable()
	}
	return c.socket.Readable()
}

// receive is like the socket's Read, through TLS if the connection is secured.
func (c *Conn) receive(p []byte) (int, error) {
	if c.tls != nil {
		return c.tls.read(p)
	}
	n, err := c.socket.Read(p)
	c.in += uint64(n)
	return n, err
}

// readSoon queues a callback that reads.
func (c *Conn) readSoon() {
	if c.is(readQueued) {
		return
	}
	c.marks |= readQueued
	c.st.sockets.L.Internal().CallSoon(atclose.Drop, func() {
		c.marks &^= readQueued
		c.proceed()
	})
}

func (c *Conn) eof() {
	if r, ok := c.proto.(EOFReceiver); ok && r.EOFReceived(c) {
		return
	}
	c.beginClose()
}

// PauseReading stops DataReceived until ResumeReading. Data then fills the system's
// buffer, and finally blocks the peer. An EOF is not delivered either, and a peer that
// is gone may go unnoticed.
func (c *Conn) PauseReading() {
	c.checkLoop("PauseReading")
	if c.is(pausedReading) {
		return
	}
	c.marks |= pausedReading
	if !c.is(handshaking) {
		c.socket.PauseReading()
	}
}

// ResumeReading delivers data again.
func (c *Conn) ResumeReading() {
	c.checkLoop("ResumeReading")
	if !c.is(pausedReading) {
		return
	}
	c.marks &^= pausedReading
	if c.is(handshaking) || c.phase.closing() {
		return
	}
	c.noteResumed()
	if err := c.socket.ResumeReading(); err != nil {
		c.lose(c.opError("read", err))
		return
	}
	if c.readable() {
		c.readSoon()
	}
}

// IsClosing reports whether the connection is closed or closing.
func (c *Conn) IsClosing() bool {
	c.checkLoop("IsClosing")
	return c.phase.closing()
}

// Close ends the connection once everything written was sent. Nothing more is received.
// Closing again does nothing. A peer that does not read keeps the connection open; use
// SetIdleTimeout, or Abort after a while, to limit that.
func (c *Conn) Close() error {
	c.checkLoop("Close")
	c.beginClose()
	return nil
}

func (c *Conn) beginClose() {
	if c.phase.closing() {
		return
	}
	c.phase.enter(phaseClosing)
	if !c.is(handshaking) {
		c.socket.PauseReading()
	}
	if !c.is(hasGathered) && c.unsent == nil || c.is(unannounced) && c.is(handshaking) {
		c.afterSend()
	}
}

// Abort ends the connection at once. Unsent bytes are dropped.
func (c *Conn) Abort() {
	c.checkLoop("Abort")
	c.lose(nil)
}

// lose ends the connection and queues ConnectionLost.
func (c *Conn) lose(err error) {
	if c.phase.lost() {
		return
	}
	c.phase.enter(lostPhase(err))
	c.releaseResources()
	c.socket.Close()
	c.st.sockets.L.Internal().CallSoon(atclose.Run, func() { c.end(err) })
}

// releaseResources releases what the connection holds besides its socket.
func (c *Conn) releaseResources() {
	if c.extra != nil {
		c.extra.timer.Cancel()
	}
	c.releaseFiles()
	if c.is(handshaking) {
		c.tls.handshake.abandon()
	}
}

// end runs the last callbacks of the connection. Each one runs even if the one before
// panics.
func (c *Conn) end(err error) {
	defer func() {
		if c.shard != nil {
			c.shard.connLost()
		}
	}()
	defer func() {
		switch {
		case !c.is(unannounced):
			c.proto.ConnectionLost(c, err)
		case c.is(handshaking) && err != nil:
			c.tls.handshake.done(err)
		}
	}()
	flushed := c.flushed()
	c.unsent = nil
	c.endFlushWaiters(flushed, cmp.Or(err, net.ErrClosed))
}

// opError returns err as package net would, as a *net.OpError.
func (c *Conn) opError(op string, err error) error {
	local, remote := c.addrs()
	return sock.Error(op, c.network(), local, remote, err)
}
