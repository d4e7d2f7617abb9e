package transport

import (
	"io"
	"net"
	"syscall"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/sock"
)

const errAgain = syscall.EAGAIN

// Default water marks; see SetWriteLimits.
const (
	defaultHigh = 64 << 10
	defaultLow  = 16 << 10
)

// gatherLimit is the largest write that is gathered. Copying more costs as much as it
// saves.
const gatherLimit = 4 << 10

// Write sends p, now or later. It fails only if the connection is closed, with
// net.ErrClosed. An error while sending ends the connection. The caller may reuse p
// when Write returns.
func (c *Conn) Write(p []byte) (int, error) {
	c.checkLoop("Write")
	if c.phase != phaseOpen {
		return 0, c.opError("write", net.ErrClosed)
	}
	switch {
	case len(p) == 0:
	case c.unsent != nil:
		c.enqueue(p)
	case len(p) <= gatherLimit:
		c.st.gather(c, p)
	default:
		if c.is(hasGathered) {
			c.st.flush()
		}
		c.send(p)
	}
	return len(p), nil
}

// Writev is like Write for several buffers.
func (c *Conn) Writev(bufs [][]byte) (n int, err error) {
	c.checkLoop("Writev")
	if c.phase != phaseOpen {
		return 0, c.opError("write", net.ErrClosed)
	}
	for _, p := range bufs {
		n += len(p)
	}
	if c.unsent == nil && n > gatherLimit {
		if c.is(hasGathered) {
			c.st.flush()
		}
		c.sendv(bufs)
		return n, nil
	}
	for _, p := range bufs {
		if c.phase.lost() {
			break // sending earlier bytes failed; as with Write, ConnectionLost reports that
		}
		c.Write(p)
	}
	return n, nil
}

// send writes p and queues what the socket does not take.
func (c *Conn) send(p []byte) {
	if c.unsent != nil || c.phase.lost() { // because of earlier gathered bytes
		c.enqueue(p)
		return
	}
	n, err := c.transmit(p)
	c.out += uint64(n)
	if err != nil {
		c.lose(c.opError("write", err))
		return
	}
	if n < len(p) {
		c.enqueue(p[n:])
	} else if c.unsent == nil {
		c.afterSend()
	}
}

// transmit is the socket's Write, through TLS if the connection is secured.
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

// sendv writes several buffers and queues what the socket does not take.
func (c *Conn) sendv(bufs [][]byte) {
	if c.phase.lost() {
		return
	}
	for c.unsent == nil && len(bufs) > 0 {
		some := bufs[:min(len(bufs), sock.MaxBuffers)]
		bufs = bufs[len(some):]
		n, err := c.transmitv(some)
		c.out += uint64(n)
		if err != nil {
			c.lose(c.opError("write", err))
			return
		}
		for _, p := range some {
			if n >= len(p) {
				n -= len(p)
				continue
			}
			c.enqueue(p[n:])
			n = 0
		}
	}
	for _, p := range bufs {
		c.enqueue(p)
	}
	if c.unsent == nil {
		c.afterSend()
	}
}

// afterSend is called when everything was sent. It completes Close and WriteEOF.
func (c *Conn) afterSend() {
	c.noteSent()
	switch {
	case c.is(hasGathered): // more bytes follow; flush calls afterSend again
	case c.phase == phaseClosing:
		if waits, _ := c.sendCloseNotify(); !waits {
			c.lose(nil)
		}
	case c.phase == phaseShutting && c.tls != nil && c.is(fileMissing):
		c.lose(c.opError("sendfile", io.ErrUnexpectedEOF))
	case c.phase == phaseShutting && c.tls != nil:
		if _, err := c.sendCloseNotify(); err != nil {
			c.lose(c.opError("shutdown", err))
		}
	case c.phase == phaseShutting && !c.socket.Shut():
		err := c.socket.CloseWrite()
		if err == syscall.ENOTCONN && c.socket.Readable() {
			return // reset by the peer, but bytes that it sent before are still to be read
		}
		if err != nil {
			c.lose(c.opError("shutdown", err))
		} else if c.socket.WriteOnly() {
			c.lose(nil) // a pipe can signal EOF only by being closed
		}
	}
}

// WriteEOF closes the sending side once everything written was sent. The peer reads
// EOF, and can still send.
func (c *Conn) WriteEOF() error {
	c.checkLoop("WriteEOF")
	if c.phase.closing() {
		return c.opError("shutdown", net.ErrClosed)
	}
	if c.phase == phaseShutting {
		return nil
	}
	c.phase.enter(phaseShutting)
	if !c.is(hasGathered) && c.unsent == nil {
		c.afterSend()
	}
	return nil
}

// sendQueue holds what could not be sent yet.
type sendQueue struct {
	raw      []byte // sent first and unchanged: TLS records, or bytes written before StartTLS
	rawAt    uint64 // the connection's out before the bytes of raw
	bufs     [][]byte
	sentHead int          // bytes of bufs[0] that were sent
	size     int          // unsent bytes in bufs
	files    []*fileRange // their positions lie between the bytes of bufs
}

// queueChunk is the capacity of a buffer that collects small writes.
const queueChunk = 16 << 10

// enqueue appends a copy of p to the queue.
func (c *Conn) enqueue(p []byte) {
	if c.phase.lost() {
		return
	}
	if c.unsent == nil {
		c.unsent = &sendQueue{}
	}
	first := c.unsent.empty()
	c.unsent.add(p)
	if first {
		c.noteQueued()
	}
	c.checkHigh()
}

func (q *sendQueue) add(p []byte) {
	q.size += len(p)
	if last := len(q.bufs) - 1; last >= 0 {
		n := min(cap(q.bufs[last])-len(q.bufs[last]), len(p))
		q.bufs[last] = append(q.bufs[last], p[:n]...)
		p = p[n:]
	}
	if len(p) > 0 {
		q.bufs = append(q.bufs, append(make([]byte, 0, max(queueChunk, len(p))), p...))
	}
}

// drain sends from the queue as much as the socket takes.
func (c *Conn) drain() {
	q := c.unsent
	for {
		if len(q.raw) > 0 && !c.drainRaw() {
			return
		}
		c.runFlushWaiters()
		if c.phase.lost() {
			return
		}
		c.checkLow()
		if q.empty() {
			break
		}
		if !c.socket.Writable() {
			return
		}
		if c.is(handshaking) {
			c.socket.UnwatchWritable() // nothing can be sent until the handshake is done
			return
		}
		if q.fileIsNext(c.out) {
			if !c.drainFile() {
				return
			}
			continue
		}
		n, err := c.drainBytes(q)
		c.out += uint64(n)
		if err != nil {
			c.lose(c.opError("write", err))
			return
		}
		q.drop(n)
		if n > 0 {
			c.noteSent()
		}
	}
	c.unsent = nil
	if err := c.socket.UnwatchWritable(); err != nil {
		c.lose(c.opError("write", err))
		return
	}
	c.afterSend()
}

// drainBytes sends bytes that precede the next file.
func (c *Conn) drainBytes(q *sendQueue) (int, error) {
	bufs := q.bufs
	first := bufs[0]
	if len(q.files) > 0 {
		p := first[q.sentHead:]
		return c.transmit(p[:min(uint64(len(p)), q.files[0].at-c.out)])
	}
	bufs[0] = first[q.sentHead:]
	n, err := c.transmitv(bufs)
	bufs[0] = first
	return n, err
}

// drop removes the first n bytes of bufs.
func (q *sendQueue) drop(n int) {
	q.size -= n
	n += q.sentHead
	for len(q.bufs) > 0 && n >= len(q.bufs[0]) {
		n -= len(q.bufs[0])
		q.bufs[0] = nil
		q.bufs = q.bufs[1:]
	}
	q.sentHead = n
}

// Unsent returns the number of queued bytes that the system has not taken, without
// those of files. It does not include small writes of the current turn.
func (c *Conn) Unsent() int {
	c.checkLoop("Unsent")
	return c.unsentBytes()
}

func (c *Conn) unsentBytes() int {
	if c.unsent == nil {
		return 0
	}
	return c.unsent.size + len(c.unsent.raw)
}

func (c *Conn) limits() (high, low int) {
	if c.extra != nil && c.extra.high > 0 {
		return c.extra.high, c.extra.low
	}
	return defaultHigh, defaultLow
}

// SetWriteLimits sets the water marks: PauseWriting is called above high unsent bytes,
// ResumeWriting at low or fewer.
func (c *Conn) SetWriteLimits(high, low int) {
	c.checkLoop("SetWriteLimits")
	if low < 0 || high <= low {
		panic("transport: SetWriteLimits needs 0 <= low < high")
	}
	e := c.ensureExtra()
	e.high, e.low = high, low
	c.checkHigh()
	c.checkLow()
}

func (c *Conn) checkHigh() {
	high, _ := c.limits()
	if c.writing.paused() || c.unsentBytes() <= high {
		return
	}
	if c.writing == writeResuming {
		c.writing = writePaused
	} else {
		c.writing = writePausing
	}
	c.notifyPauser()
}

func (c *Conn) checkLow() {
	_, low := c.limits()
	if !c.writing.paused() || c.unsentBytes() > low {
		return
	}
	if c.writing == writePausing {
		c.writing = writeFlowing
	} else {
		c.writing = writeResuming
	}
	c.notifyPauser()
}

// notifyPauser queues PauseWriting or ResumeWriting if the protocol does not know the phase.
func (c *Conn) notifyPauser() {
	if _, ok := c.proto.(WritePauser); !ok || c.is(pauserQueued) || c.writing.reported() {
		return
	}
	c.marks |= pauserQueued
	c.st.sockets.L.Internal().CallSoon(atclose.Drop, func() {
		c.marks &^= pauserQueued
		p, ok := c.proto.(WritePauser)
		if !ok || c.phase.lost() {
			return
		}
		switch c.writing {
		case writePausing:
			c.writing = writePaused
			c.guard(func() { p.PauseWriting(c) })
		case writeResuming:
			c.writing = writeFlowing
			c.guard(func() { p.ResumeWriting(c) })
		}
	})
}
