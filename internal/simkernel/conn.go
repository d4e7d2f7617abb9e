package simkernel

import (
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

// conn is a stream socket, TCP or Unix, in any of its states.
type conn struct {
	socket
	state    connState
	peer     *conn
	in, out  *flow
	id       uint32
	attempts uint8  // to connect so far
	shutRead bool   // by Shutdown
	closed   bool   // the descriptor is closed
	listener *conn  // nil once the connection was accepted
	backlog  uint32 // of a listener
	queue    []*conn
}

type connState uint8

const (
	fresh connState = iota
	connecting
	listening
	connected
	broken // reset, refused, timed out
)

func (c *conn) changed(m mask)   { c.file.changed(m) }
func (c *conn) hostID() int32    { return c.host.id }
func (c *conn) ignoresEnd() bool { return c.state == broken }

// discards reports whether no program can read bytes that arrive: the socket was closed,
// shut down in both directions, or has failed.
func (c *conn) discards() bool {
	return c.closed || c.state == broken || c.shutRead && c.out.end >= endSent
}

// connectPair makes two sockets the ends of a connection. The links are nil for Unix
// sockets.
func connectPair(a, b *conn, there, back *Link) {
	w := a.host.w
	w.conns++
	a.id, b.id = w.conns, w.conns
	a.peer, b.peer = b, a
	a.out = &flow{w: w, from: a, to: b, link: there, back: back, id: a.id}
	b.out = &flow{w: w, from: b, to: a, link: back, back: there, id: a.id}
	a.in, b.in = b.out, a.out
	a.resize()
	b.resize()
	for _, f := range [...]*flow{a.out, b.out} {
		f.sendLimit, f.advertised = f.window, f.window
	}
}

// resize sets the sizes of the buffers to those of the socket options.
func (c *conn) resize() {
	if c.out != nil {
		c.out.sendBuffer = uint64(c.options[kernel.SendBuffer])
		c.in.window = uint64(c.options[kernel.RecvBuffer])
	}
}

func (c *conn) readiness() (m mask) {
	if c.err != 0 {
		m |= failed
	}
	switch c.state {
	case fresh:
		return m | out | hungUp
	case connecting:
		return m
	case listening:
		if len(c.queue) > 0 {
			m |= in
		}
		return m
	case broken:
		return m | in | out | peerShut | hungUp
	}
	if c.family == kernel.Unix && c.peer.closed {
		return m | in | out | peerShut | hungUp
	}
	noMore := c.shutRead || c.in.end >= endArrived
	if noMore {
		m |= in | peerShut
	}
	if c.in.arrived > c.in.read {
		m |= in
	}
	switch {
	case c.out.end != endOpen:
		m |= out
		if noMore {
			m |= hungUp
		}
	case c.out.writable():
		m |= out
	default:
		c.out.writerWaits = true
	}
	return m
}

func (c *conn) recv(b []byte) (int, error) {
	switch c.state {
	case fresh, listening:
		return 0, syscall.ENOTCONN
	case connecting:
		return 0, syscall.EAGAIN
	}
	if c.in != nil && c.in.arrived > c.in.read {
		return c.in.take(b), nil
	}
	switch {
	case c.in != nil && c.in.end >= endArrived && c.family != kernel.Unix:
		return 0, nil // the end takes precedence over a later error
	case c.err != 0:
		return 0, c.takeError()
	case c.state == broken, c.shutRead, c.in.end >= endArrived, len(b) == 0:
		return 0, nil
	}
	return 0, syscall.EAGAIN
}

// mayWrite returns the error of a write, or nil if the socket can be written to.
func (c *conn) mayWrite() error {
	switch {
	case c.state == connecting:
		return syscall.EAGAIN
	case c.state == fresh || c.state == listening:
		if c.family == kernel.Unix {
			return syscall.ENOTCONN
		}
		return syscall.EPIPE
	case c.family == kernel.Unix && (c.state == broken || c.peer.closed):
		return syscall.EPIPE
	case c.err != 0:
		return c.takeError()
	case c.state == broken || c.out.end != endOpen:
		return syscall.EPIPE
	}
	return nil
}

func (c *conn) send(b []byte) (int, error) {
	if err := c.mayWrite(); err != nil {
		return 0, err
	}
	n := c.out.put(b)
	if n == 0 && len(b) > 0 {
		return 0, syscall.EAGAIN
	}
	c.out.push()
	return n, nil
}

func (c *conn) sendv(bufs [][]byte) (n int, err error) {
	if err := c.mayWrite(); err != nil {
		return 0, err
	}
	for _, b := range bufs {
		m := c.out.put(b)
		n += m
		if m < len(b) {
			if n == 0 {
				return 0, syscall.EAGAIN
			}
			break
		}
	}
	c.out.push()
	return n, nil
}

func (c *conn) shutdown(side kernel.Side) error {
	switch {
	case c.family == kernel.Unix && c.state == broken:
		return nil
	case !c.attached():
		return syscall.ENOTCONN
	}
	if side != kernel.ReadSide {
		c.finish()
	}
	if side != kernel.WriteSide {
		c.shutRead = true
		if c.family == kernel.Unix { // the peer is notified at once, and can no longer write
			c.in.end = endAcked
			c.peer.changed(c.peer.readiness())
		}
	}
	c.changed(c.readiness())
	return nil
}

// attached reports whether the socket still has a connection. It has none once both sides
// have ended sending, and the socket knows it.
func (c *conn) attached() bool {
	return c.state == connected && (c.family == kernel.Unix || c.out.end < endAcked || c.in.end < endArrived)
}

// finish ends the sending side after everything that was written.
func (c *conn) finish() {
	if c.out.end == endOpen {
		c.out.end = endWanted
		c.out.push()
	}
}

// release closes the socket. Bytes that were written are still sent, unless some received
// bytes were not read or SO_LINGER is zero: then the connection is reset.
func (c *conn) release() {
	c.file = nil
	c.closed = true
	c.unbind()
	switch c.state {
	case listening:
		for _, waiting := range c.queue {
			waiting.closed = true
			waiting.reset()
		}
		c.queue = nil
	case connected:
		if !c.attached() {
			return
		}
		unread := c.in.arrived > c.in.read
		if c.options[kernel.LingerSeconds] == 0 && c.family != kernel.Unix || unread {
			c.reset()
			return
		}
		c.finish()
		if c.out.link == nil {
			c.out.notifyPeerClosed()
		}
	}
}

// notifyPeerClosed wakes the peer of a Unix socket, which can no longer write.
func (f *flow) notifyPeerClosed() { f.to.changed(in | out | peerShut | hungUp) }

// reset drops the bytes in flight and breaks the connection at both ends.
func (c *conn) reset() {
	if c.state != connected {
		return
	}
	c.state = broken
	c.out.stopped = true
	if c.out.link == nil {
		c.w().trace.add(c.w(), traceEvent{kind: Reset, from: c.host.id, to: c.peer.host.id, conn: c.id})
		c.peer.fail(syscall.ECONNRESET)
		return
	}
	c.sendReset()
}

func (c *conn) w() *World { return c.host.w }

// sendReset sends a reset to the peer, after the bytes in flight. It reports whether the
// reset will arrive.
func (c *conn) sendReset() bool {
	if c.out.link.passes() {
		c.w().at(c.out.arrival(0), resetArrives, c.peer, 0, c.w().moment())
		return true
	}
	c.w().trace.add(c.w(), traceEvent{kind: Dropped, from: c.host.id, to: c.peer.host.id, conn: c.id, note: "reset"})
	return false
}

func resetArrives(on any, _, sent uint64) {
	c := on.(*conn)
	if c.state != connected {
		return
	}
	c.w().trace.add(c.w(), traceEvent{kind: Reset, travel: c.w().since(sent), from: c.peer.host.id, to: c.host.id, conn: c.id})
	err := syscall.ECONNRESET
	if c.in.end >= endArrived {
		err = syscall.EPIPE
	}
	c.fail(err)
}

// fail ends the connection with an error. Bytes that have arrived can still be read.
func (c *conn) fail(err syscall.Errno) {
	if c.state == broken {
		return
	}
	if c.out != nil {
		c.in.stopped = true
	}
	c.giveUp(err)
}

// giveUp ends this end of the connection with an error. The peer is not notified: what it
// sends is answered with a reset, and if that is lost too, it gives up in turn.
func (c *conn) giveUp(err syscall.Errno) {
	c.state = broken
	c.err = err
	if c.out != nil {
		c.out.stopped = true
	}
	c.changed(in | out | peerShut | hungUp | failed)
}

func (c *conn) timedOut() {
	if c.state != broken {
		c.giveUp(syscall.ETIMEDOUT)
	}
}

// rejectArrival answers bytes for a closed socket with a reset. A host that is down does
// not answer, and the answer may be lost. Then the sender will retransmit.
func (c *conn) rejectArrival(f *flow) {
	if c.host.down || !c.sendReset() {
		f.sent = f.arrived
		f.retryLater(0)
		return
	}
	c.fail(syscall.ECONNRESET)
}
