package stream

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/tlsio"
)

// tlsSocket is the tlsio.Socket of a TLSConn.
type tlsSocket TLSConn

// Receive reads records from the socket.
func (s *tlsSocket) Receive(p []byte) (int, error) {
	n, err := s.conn.socket.Read(p)
	if err == syscall.EAGAIN {
		return 0, tlsio.ErrNoInput
	}
	return n, s.conn.netError("read", err)
}

// Send sends records. Those that the socket does not accept are pending.
func (s *tlsSocket) Send(p []byte) {
	t := (*TLSConn)(s)
	if len(t.pending) == 0 && t.broken == nil {
		n, err := t.conn.socket.Write(p)
		t.setBroken(err)
		p = p[n:]
	}
	if t.broken == nil {
		t.pending = append(t.pending, p...)
	}
}

func (s *tlsSocket) LocalAddr() net.Addr  { return s.conn.LocalAddr() }
func (s *tlsSocket) RemoteAddr() net.Addr { return s.conn.RemoteAddr() }

// setBroken records a write error, after which nothing can be sent any more.
func (t *TLSConn) setBroken(err error) {
	if err != nil {
		t.broken = t.conn.netError("write", err)
		t.pending = nil
	}
}

// read is Read for a task.
func (t *TLSConn) read(ctx context.Context, p []byte) (n int, err error) {
	c := t.conn
	if err := spindle.Checkpoint(ctx); err != nil {
		return 0, err
	}
	if !t.done.Load() {
		if err := t.doHandshake(ctx); err != nil {
			return 0, err
		}
	}
	if err := c.reads.acquire(ctx, "TLSConn.Read"); err != nil {
		return 0, err
	}
	n, err = t.tryRead(p)
	for err == tlsio.ErrNoInput {
		var w spindle.Waker
		if w, err = c.beginReadWait(ctx); err != nil {
			break
		}
		// Idle connections park here. A helper function would add a frame to each of
		// their stacks.
		err = w.Park(ctx, "TLSConn.Read", &c.reads)
		c.socket.PauseReading()
		if err == nil {
			n, err = t.tryRead(p)
		}
	}
	c.reads.release()
	return n, t.netError("read", err)
}

func (t *TLSConn) tryRead(p []byte) (int, error) {
	switch c := t.conn; {
	case c.closed.Load():
		return 0, net.ErrClosed
	case c.reads.expired():
		return 0, os.ErrDeadlineExceeded
	}
	if len(t.pending) == 0 {
		t.session.Drained()
	}
	n, err := t.session.Decrypt(p)
	t.flushSoon() // an alert, or a reply
	return n, err
}

// write is Write for a task.
func (t *TLSConn) write(ctx context.Context, p []byte) (n int, err error) {
	c := t.conn
	if ctx.Err() != nil {
		if err := spindle.Checkpoint(ctx); err != nil {
			return 0, err
		}
	}
	borrowed := c.borrowed(p)
	if borrowed && (!t.done.Load() || c.writes.busy() || len(t.pending) > 0) { // other tasks overwrite the shared buffer during the wait
		p, borrowed = append([]byte(nil), p...), false
	}
	if !t.done.Load() {
		if err := t.doHandshake(ctx); err != nil {
			return 0, err
		}
	}
	if err := t.acquireWrites(ctx, "TLSConn.Write"); err != nil {
		return 0, t.netError("write", err)
	}
	n, err = t.writeAll(ctx, p)
	t.releaseWrites()
	if err != nil {
		return n, t.netError("write", err)
	}
	if !borrowed && ctx.Err() == nil {
		spindle.Checkpoint(ctx) // a cancellation does not undo the completed Write
	}
	return n, nil
}

// writeAll encrypts and sends p in chunks. Borrowed bytes fit into one chunk.
func (t *TLSConn) writeAll(ctx context.Context, p []byte) (n int, err error) {
	for {
		if err = t.writeError(); err != nil {
			return n, err
		}
		if len(t.pending) == 0 {
			m := 0
			if m, err = t.session.Encrypt(p[n:]); t.broken != nil {
				return n, t.broken
			}
			n += m
		}
		if err == nil && len(t.pending) > 0 {
			err = t.flush(ctx)
		}
		if err != nil || n == len(p) {
			return n, err
		}
		if err = spindle.Checkpoint(ctx); err != nil {
			return n, err
		}
	}
}

func (t *TLSConn) writeError() error {
	switch c := t.conn; {
	case c.closed.Load():
		return net.ErrClosed
	case c.writes.expired():
		return os.ErrDeadlineExceeded
	}
	return t.broken
}

// flush sends the pending records, waiting for writability. The caller holds writes.
func (t *TLSConn) flush(ctx context.Context) (err error) {
	c := t.conn
	for err == nil && len(t.pending) > 0 {
		if c.writes.expired() && !t.flushing { // flushSoon's task sends regardless of the deadline
			err = os.ErrDeadlineExceeded
			break
		}
		var n int
		n, err = c.socket.Write(t.pending)
		if t.setBroken(err); err != nil {
			break
		}
		if t.pending = t.pending[n:]; len(t.pending) == 0 || t.flushing && c.writes.contended() {
			break
		}
		err = c.waitToWrite(ctx, "TLSConn.Write", len(t.pending))
		if err == os.ErrDeadlineExceeded && t.flushing {
			err = nil
		}
	}
	if len(t.pending) == 0 {
		t.pending = nil
	}
	if e := c.socket.UnwatchWritable(); err == nil {
		err = e
	}
	return err
}

// acquireWrites acquires the writing direction. It interrupts flushSoon's task,
// because the caller may have a deadline to meet and sends the pending records
// itself.
func (t *TLSConn) acquireWrites(ctx context.Context, what string) error {
	if err := t.writeError(); err != nil {
		return err
	}
	if t.flushing {
		t.conn.writes.wake(nil)
	}
	return t.conn.writes.acquire(ctx, what)
}

// releaseWrites releases the writing direction and makes sure that pending records
// are still sent.
func (t *TLSConn) releaseWrites() {
	t.conn.writes.release()
	t.flushSoon()
}

func (t *TLSConn) closeWrite(ctx context.Context) error {
	if !t.done.Load() {
		return t.netError("close", errors.New("stream: CloseWrite before the handshake is over"))
	}
	if err := t.acquireWrites(ctx, "TLSConn.CloseWrite"); err != nil {
		return t.netError("close", err)
	}
	err := t.writeError()
	if err == nil {
		if _, err = t.session.CloseWrite(); err == nil {
			err = t.broken
		}
	}
	if err == nil {
		err = t.flush(ctx)
	}
	t.releaseWrites()
	return t.netError("close", err)
}
