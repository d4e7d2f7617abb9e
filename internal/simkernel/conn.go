package simkernel

import (
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

// conn is a stream socket, of TCP or Unix, in any of its states.
type conn struct {
	socket
	state    connState
	peer     *conn
	in, out  *flow
	id       uint32
	attempts uint8  // to connect
	shutRead bool   // from here
	closed   bool   // its descriptor is
	gate     *conn  // the listener, until it is accepted
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

func (c *conn) changed(m mask) { c.file.changed(m) }
func (c *conn) hostID() int32  { return c.host.id }
func (c *conn) lost() bool     { return c.closed && c.state == broken }

// gone is true of a socket that was closed, and of one that was shut down in both
// directions.
func (c *conn) gone() bool { return c.closed || c.shutRead && c.out.end >= endSent }

// join makes two sockets the ends of a connection. Links are nil within a host's
// Unix sockets.
func join(a, b *conn, there, back *Link) {
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
		f.edge, f.told = f.window, f.window
	}
}

// resize makes the buffers as large as the options say.
func (c *conn) resize() {
	if c.out != nil {
		c.out.room = uint64(c.options[kernel.SendBuffer])
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
		c.out.cramped = true
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
		return 0, nil // the end counts more than an error behind it
	case c.err != 0:
		return 0, c.takeError()
	case c.state == broken, c.shutRead, c.in.end >= endArrived, len(b) == 0:
		return 0, nil
	}
	return 0, syscall.EAGAIN
}

// mayWrite tells why there can be no writing, if there cannot.
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
		if c.family == kernel.Unix { // the peer knows at once, and cannot write
			c.in.end = endAcked
			c.peer.changed(c.peer.readiness())
		}
	}
	c.changed(c.readiness())
	return nil
}

// attached tells whether there still is a connection: not once both sides have
// ended it and know of each other.
func (c *conn) attached() bool {
	return c.state == connected && (c.family == kernel.Unix || c.out.end < endAcked || c.in.end < endArrived)
}

// finish ends the sending side once everything was sent.
func (c *conn) finish() {
	if c.out.end == endOpen {
		c.out.end = endWanted
		c.out.push()
	}
}

// release is the close of the descriptor. What was written is still sent, unless
// the peer's bytes were not all read or linger says so: then it is reset.
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
			c.out.tellPeerOfClose()
		}
	}
}

// tellPeerOfClose is for sockets within a host: who writes has nobody to write to.
func (f *flow) tellPeerOfClose() { f.to.changed(in | out | peerShut | hungUp) }

// reset drops what is on its way and breaks the connection at the other end too.
func (c *conn) reset() {
	if c.state != connected {
		return
	}
	c.state = broken
	c.out.over = true
	if c.out.link == nil {
		c.w().trace.add(c.w(), traceEvent{kind: Reset, from: c.host.id, to: c.peer.host.id, conn: c.id})
		c.peer.breakOff(syscall.ECONNRESET)
		return
	}
	c.sendReset()
}

func (c *conn) w() *World { return c.host.w }

// sendReset sends a reset to the peer, behind what is on its way, and tells whether
// it gets through.
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
	c.breakOff(err)
}

// breakOff is the end of a connection by an error. What has arrived can be read.
func (c *conn) breakOff(err syscall.Errno) {
	if c.state == broken {
		return
	}
	c.state = broken
	c.err = err
	if c.out != nil {
		c.out.over, c.in.over = true, true
	}
	c.changed(in | out | peerShut | hungUp | failed)
}

func (c *conn) gaveUp(err syscall.Errno) { c.breakOff(err) }

// arrivedAtNobody answers bytes for a socket that was closed. A host that is down
// answers nothing, and the answer may be lost: then the sender will try again.
func (c *conn) arrivedAtNobody(f *flow) {
	if c.host.down || !c.sendReset() {
		f.sent = f.arrived
		f.lost(0)
		return
	}
	c.breakOff(syscall.ECONNRESET)
}
