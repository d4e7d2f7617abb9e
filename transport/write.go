package transport

import (
	"net"
	"syscall"

	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

const errAgain = syscall.EAGAIN

// Water marks, unless SetWriteLimits sets others.
const (
	defaultHigh = 64 << 10
	defaultLow  = 16 << 10
)

// gatherLimit is the largest write that is gathered: to copy more costs as much as
// it saves.
const gatherLimit = 4 << 10

// Write sends p, now or later. It fails only if the connection is closed, with
// net.ErrClosed; an error of the sending ends the connection. The slice is the
// caller's again when it returns.
func (c *Conn) Write(p []byte) (int, error) {
	c.only("Write")
	if c.is(closing | shutting | lost) {
		return 0, c.fault("write", net.ErrClosed)
	}
	switch {
	case len(p) == 0:
	case c.unsent != nil:
		c.keep(p)
	case len(p) <= gatherLimit:
		c.st.gather(c, p)
	default:
		if c.is(gathered) {
			c.st.flush()
		}
		c.send(p)
	}
	return len(p), nil
}

// Writev is Write of several buffers in one.
func (c *Conn) Writev(bufs [][]byte) (n int, err error) {
	c.only("Writev")
	if c.is(closing | shutting | lost) {
		return 0, c.fault("write", net.ErrClosed)
	}
	for _, p := range bufs {
		n += len(p)
	}
	if c.unsent == nil && n > gatherLimit {
		if c.is(gathered) {
			c.st.flush()
		}
		c.sendv(bufs)
		return n, nil
	}
	for _, p := range bufs {
		if c.is(lost) {
			break // by sending what was gathered before: as with Write, that is told elsewhere
		}
		c.Write(p)
	}
	return n, nil
}

// send writes p, and keeps what does not fit.
func (c *Conn) send(p []byte) {
	if c.unsent != nil || c.is(lost) { // by what was gathered before
		c.keep(p)
		return
	}
	n, err := c.transmit(p)
	c.out += uint64(n)
	if err != nil {
		c.lose(c.fault("write", err))
		return
	}
	if n < len(p) {
		c.keep(p[n:])
	} else if c.unsent == nil {
		c.sent()
	}
}

// transmit is the socket's Write, through TLS if there is.
func (c *Conn) transmit(p []byte) (int, error) {
	if c.tls != nil {
		return c.tls.write(p)
	}
	return c.socket.Write(p)
}

func (c *Conn) transmitv(bufs [][]byte) (int, error) {
	if c.tls != nil {
		return c.tls.writev(bufs)
	}
	return c.socket.Writev(bufs)
}

// sendv writes several buffers, and keeps what does not fit.
func (c *Conn) sendv(bufs [][]byte) {
	if c.is(lost) {
		return
	}
	for c.unsent == nil && len(bufs) > 0 {
		some := bufs[:min(len(bufs), sock.MaxBuffers)]
		bufs = bufs[len(some):]
		n, err := c.transmitv(some)
		c.out += uint64(n)
		if err != nil {
			c.lose(c.fault("write", err))
			return
		}
		for _, p := range some {
			if n >= len(p) {
				n -= len(p)
				continue
			}
			c.keep(p[n:])
			n = 0
		}
	}
	for _, p := range bufs {
		c.keep(p)
	}
	if c.unsent == nil {
		c.sent()
	}
}

// sent is what follows when nothing waits to be sent.
func (c *Conn) sent() {
	c.touch()
	switch {
	case c.is(gathered): // more of it comes behind; flush sees to the end
	case c.is(closing):
		if waits, _ := c.farewell(); !waits {
			c.lose(nil)
		}
	case c.is(shutting) && c.tls != nil:
		if _, err := c.farewell(); err != nil {
			c.lose(c.fault("shutdown", err))
		}
	case c.is(shutting) && !c.socket.Shut():
		err := c.socket.CloseWrite()
		if err == syscall.ENOTCONN && c.socket.Readable() {
			return // the peer has reset it, and what it sent before is still to be read
		}
		if err != nil {
			c.lose(c.fault("shutdown", err))
		} else if c.socket.WriteOnly() {
			c.lose(nil) // a pipe has no other way to tell
		}
	}
}

// WriteEOF closes the sending side once everything written was sent: the peer
// reads the end, and can go on sending.
func (c *Conn) WriteEOF() error {
	c.only("WriteEOF")
	if c.is(closing | lost) {
		return c.fault("shutdown", net.ErrClosed)
	}
	if c.is(shutting) {
		return nil
	}
	c.state |= shutting
	if !c.is(gathered) && c.unsent == nil {
		c.sent()
	}
	return nil
}

// unsent is what waits for room.
type unsent struct {
	sealed []byte // goes out first, as it is: TLS has made it, or began behind it
	bufs   [][]byte
	head   int // bytes of the first that were sent
	size   int
	files  []*span // between the bytes
}

// chunk is how much room is made for small writes at once.
const chunk = 16 << 10

// keep copies p behind what waits.
func (c *Conn) keep(p []byte) {
	if c.is(lost) {
		return
	}
	if c.unsent == nil {
		c.unsent = &unsent{}
	}
	first := c.unsent.empty()
	c.unsent.add(p)
	if first {
		c.waits()
	}
	c.checkHigh()
}

func (u *unsent) add(p []byte) {
	u.size += len(p)
	if last := len(u.bufs) - 1; last >= 0 {
		room := cap(u.bufs[last]) - len(u.bufs[last])
		n := min(room, len(p))
		u.bufs[last] = append(u.bufs[last], p[:n]...)
		p = p[n:]
	}
	if len(p) > 0 {
		u.bufs = append(u.bufs, append(make([]byte, 0, max(chunk, len(p))), p...))
	}
}

// drain sends what waits, as far as there is room.
func (c *Conn) drain() {
	u := c.unsent
	for {
		if len(u.sealed) > 0 && !c.drainSealed() {
			return
		}
		c.settle()
		if c.is(lost) {
			return
		}
		c.checkLow()
		if u.empty() {
			break
		}
		if !c.socket.Writable() {
			return
		}
		if c.is(shaking) {
			c.socket.UnwatchWritable() // until TLS takes it, there is nothing to send
			return
		}
		if u.fileIsNext(c.out) {
			if !c.drainFile() {
				return
			}
			continue
		}
		n, err := c.drainBytes(u)
		c.out += uint64(n)
		if err != nil {
			c.lose(c.fault("write", err))
			return
		}
		u.drop(n)
		if n > 0 {
			c.touch()
		}
	}
	c.unsent = nil
	if err := c.socket.UnwatchWritable(); err != nil {
		c.lose(c.fault("write", err))
		return
	}
	c.sent()
}

// drainBytes sends of the bytes that go before the next file.
func (c *Conn) drainBytes(u *unsent) (int, error) {
	bufs := u.bufs
	first := bufs[0]
	if len(u.files) > 0 {
		p := first[u.head:]
		return c.transmit(p[:min(uint64(len(p)), u.files[0].at-c.out)])
	}
	bufs[0] = first[u.head:]
	n, err := c.transmitv(bufs)
	bufs[0] = first
	return n, err
}

// drop takes out the first n bytes.
func (u *unsent) drop(n int) {
	u.size -= n
	n += u.head
	for len(u.bufs) > 0 && n >= len(u.bufs[0]) {
		n -= len(u.bufs[0])
		u.bufs[0] = nil
		u.bufs = u.bufs[1:]
	}
	u.head = n
}

// Unsent is how many bytes wait for room to be sent, not counting those of files.
// Small writes of the turn under way are not among them yet.
func (c *Conn) Unsent() int {
	c.only("Unsent")
	return c.waiting()
}

func (c *Conn) waiting() int {
	if c.unsent == nil {
		return 0
	}
	return c.unsent.size + len(c.unsent.sealed)
}

func (c *Conn) limits() (high, low int) {
	if c.extra != nil && c.extra.high > 0 {
		return c.extra.high, c.extra.low
	}
	return defaultHigh, defaultLow
}

// SetWriteLimits sets the water marks: at more than high bytes that wait to be
// sent the protocol is told to pause, at low or less to go on.
func (c *Conn) SetWriteLimits(high, low int) {
	c.only("SetWriteLimits")
	if low < 0 || high <= low {
		panic("transport: SetWriteLimits needs 0 <= low < high")
	}
	e := c.more()
	e.high, e.low = high, low
	c.checkHigh()
	c.checkLow()
}

func (c *Conn) checkHigh() {
	high, _ := c.limits()
	if c.is(pausedWriting) || c.waiting() <= high {
		return
	}
	c.state |= pausedWriting
	c.tellPauser()
}

func (c *Conn) checkLow() {
	_, low := c.limits()
	if !c.is(pausedWriting) || c.waiting() > low {
		return
	}
	c.state &^= pausedWriting
	c.tellPauser()
}

// tellPauser has the protocol told to pause or to go on, if that is not what it was
// told last: so the two take turns, and what is over before it was told is not.
func (c *Conn) tellPauser() {
	if _, ok := c.proto.(WritePauser); !ok || c.is(telling) || c.is(pausedWriting) == c.is(toldToPause) {
		return
	}
	c.state |= telling
	c.st.hub.L.CallSoonWith(loop.DropAtClose, func() {
		c.state &^= telling
		p, ok := c.proto.(WritePauser)
		switch {
		case !ok || c.is(lost) || c.is(pausedWriting) == c.is(toldToPause):
		case c.is(pausedWriting):
			c.state |= toldToPause
			c.guarded(func() { p.PauseWriting(c) })
		default:
			c.state &^= toldToPause
			c.guarded(func() { p.ResumeWriting(c) })
		}
	})
}
