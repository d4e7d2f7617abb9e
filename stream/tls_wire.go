package stream

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/tlsio"
)

// crypto/tls holds mutexes across its calls of the connection below: one that waits
// in there while another task of the loop wants the mutex stops the loop for good.
// So below crypto/tls nothing waits, but in the handshake, when our own locks keep
// everybody else out: Write keeps what there is no room for, and Read fails with
// ErrLater, which crypto/tls takes for temporary. Then the TLSConn waits, where no
// mutex is held.
//
// The locks are the sides of the Conn: who reads has entered its reads, who writes
// its writes, who shakes hands both.

// wire is a TLSConn as the connection below crypto/tls.
type wire TLSConn

// Read reads what is there.
func (w *wire) Read(p []byte) (int, error) {
	t := (*TLSConn)(w)
	if t.start != nil {
		return t.start.read(t, p)
	}
	n, err := t.conn.socket.Read(p)
	if err == syscall.EAGAIN {
		return 0, tlsio.ErrNoInput
	}
	return n, t.conn.fault("read", err)
}

// Write sends p, or keeps what there is no room for.
func (w *wire) Write(p []byte) (n int, err error) {
	t := (*TLSConn)(w)
	if t.broken == nil && len(t.pending) == 0 {
		n, err = t.conn.socket.Write(p)
		t.note(err)
	}
	if t.broken != nil {
		return n, t.broken
	}
	t.pending = append(t.pending, p[n:]...)
	return len(p), nil
}

// Close does nothing: a TLSConn closes its Conn itself.
func (w *wire) Close() error { return nil }

// Deadlines are kept by the TLSConn. Those that crypto/tls sets, when it says that
// it will send no more, are for a Write that waits.
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

func (w *wire) LocalAddr() net.Addr  { return w.conn.LocalAddr() }
func (w *wire) RemoteAddr() net.Addr { return w.conn.RemoteAddr() }

// note remembers why nothing can be sent any more.
func (t *TLSConn) note(err error) {
	if err != nil {
		t.broken = t.conn.fault("write", err)
		t.pending = nil
	}
}

// read is Read in a task.
func (t *TLSConn) read(ctx context.Context, p []byte) (n int, err error) {
	c := t.conn
	if err := spindle.Checkpoint(ctx); err != nil {
		return 0, err
	}
	if !t.done.Load() {
		if err := t.shake(ctx); err != nil {
			return 0, err
		}
	}
	if err := c.reads.enter(ctx, "TLSConn.Read"); err != nil {
		return 0, err
	}
	n, err = t.tryRead(p)
	for err == tlsio.ErrNoInput {
		if err = c.reads.begin(ctx, c.socket.ResumeReading()); err != nil {
			break
		}
		// Not one call deeper: this is where a stack lies that waits.
		err = c.reads.waker.Park(ctx, "TLSConn.Read", &c.reads)
		c.socket.PauseReading()
		if err == nil {
			n, err = t.tryRead(p)
		}
	}
	c.reads.leave()
	return n, t.fault("read", err)
}

func (t *TLSConn) tryRead(p []byte) (int, error) {
	switch c := t.conn; {
	case c.closed.Load():
		return 0, net.ErrClosed
	case c.reads.expired():
		return 0, os.ErrDeadlineExceeded
	case t.owed > tlsio.MaxUnreadReplies:
		return 0, tlsio.ErrNotReading
	}
	before := len(t.pending)
	n, err := t.tls.Read(p)
	if len(t.pending) > before { // an alert, or an answer
		t.owed += len(t.pending) - before
		t.flushSoon()
	}
	if n > 0 && err == tlsio.ErrNoInput { // of a record behind those bytes
		err = nil
	}
	return n, err
}

// write is Write in a task.
func (t *TLSConn) write(ctx context.Context, p []byte) (n int, err error) {
	c := t.conn
	if ctx.Err() != nil {
		if err := spindle.Checkpoint(ctx); err != nil {
			return 0, err
		}
	}
	lent := c.lent(p)
	if lent && (!t.done.Load() || c.writes.busy || len(t.pending) > 0) { // others will use it while we wait
		p, lent = append([]byte(nil), p...), false
	}
	if !t.done.Load() {
		if err := t.shake(ctx); err != nil {
			return 0, err
		}
	}
	if err := t.enterWrites(ctx, "TLSConn.Write"); err != nil {
		return 0, t.fault("write", err)
	}
	n, err = t.writeAll(ctx, p)
	t.leaveWrites()
	if err != nil {
		return n, t.fault("write", err)
	}
	if !lent && ctx.Err() == nil {
		spindle.Checkpoint(ctx) // what went out stays out, whatever comes now
	}
	return n, nil
}

// writeAll encrypts and sends p piece by piece. What is lent is no longer than one.
func (t *TLSConn) writeAll(ctx context.Context, p []byte) (n int, err error) {
	for {
		if err = t.writable(); err != nil {
			return n, err
		}
		if len(t.pending) == 0 {
			m := 0
			m, err = t.tls.Write(p[n:min(len(p), n+tlsio.MaxPlaintext)])
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

func (t *TLSConn) writable() error {
	switch c := t.conn; {
	case c.closed.Load():
		return net.ErrClosed
	case c.writes.expired():
		return os.ErrDeadlineExceeded
	}
	return t.broken
}

// flush sends what is pending, waiting for room, for who has entered writes.
func (t *TLSConn) flush(ctx context.Context) (err error) {
	c := t.conn
	for err == nil && len(t.pending) > 0 {
		if c.writes.expired() && !t.flushing { // what is left goes out whatever the deadline is
			err = os.ErrDeadlineExceeded
			break
		}
		var n int
		n, err = c.socket.Write(t.pending)
		if t.note(err); err != nil {
			break
		}
		if t.pending = t.pending[n:]; len(t.pending) == 0 || t.flushing && c.writes.wanted() {
			break
		}
		if err = c.writes.begin(ctx, nil); err != nil {
			break
		}
		err = c.writes.waker.Park(ctx, "TLSConn.Write", &c.writes)
		if err == os.ErrDeadlineExceeded && t.flushing {
			err = nil
		}
	}
	if len(t.pending) == 0 {
		t.pending, t.owed = nil, 0
	}
	if e := c.socket.UnwatchWritable(); err == nil {
		err = e
	}
	return err
}

// wanted tells whether somebody is in line.
func (s *side) wanted() bool { return s.more != nil && !s.more.line.Empty() }

// enterWrites makes the writing side the calling task's, in its turn. A task that
// only sends what others have left lets it have that: it has a deadline to keep.
func (t *TLSConn) enterWrites(ctx context.Context, what string) error {
	if err := t.writable(); err != nil {
		return err
	}
	if t.flushing {
		t.conn.writes.wake(nil)
	}
	return t.conn.writes.enter(ctx, what)
}

// leaveWrites hands the writing side to the next, or sees that what is left behind
// goes out.
func (t *TLSConn) leaveWrites() {
	t.conn.writes.leave()
	t.flushSoon()
}

func (t *TLSConn) closeWrite(ctx context.Context) error {
	if !t.done.Load() {
		return t.fault("close", errors.New("stream: CloseWrite before the handshake is over"))
	}
	if err := t.enterWrites(ctx, "TLSConn.CloseWrite"); err != nil {
		return t.fault("close", err)
	}
	err := t.writable()
	if err == nil {
		err = t.tls.CloseWrite()
	}
	if err == nil {
		err = t.flush(ctx)
	}
	t.leaveWrites()
	return t.fault("close", err)
}
