package stream

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/tlsio"
)

// handshake is the state of a TLSConn until its handshake is complete.
type handshake struct {
	timeout   time.Duration // no limit if negative
	refuse    error         // why the handshake must not start
	needRoots bool          // the system's certificate pool is used
	err       error         // result for later calls
}

// waitInput waits for input of the handshake and feeds it to the session.
func (t *TLSConn) waitInput(ctx context.Context) error {
	c := t.conn
	err := t.broken
	if err == nil && len(t.pending) > 0 {
		err = t.flush(ctx) // the peer answers only after it has received all records
	}
	n, buf := 0, c.registry().Buf[:tlsio.MaxRecord]
	for err == nil {
		if c.reads.expired() {
			err = os.ErrDeadlineExceeded
			break
		}
		if n, err = c.socket.Read(buf); err != syscall.EAGAIN {
			break
		}
		err = c.reads.waitReadable(ctx, &c.socket, "TLSConn.Handshake")
	}
	if err != nil {
		return c.netError("handshake", err)
	}
	t.session.Feed(buf[:n])
	return nil
}

// Handshake performs the handshake if it has not been done. Read and Write do so,
// too.
func (t *TLSConn) Handshake() error { return t.HandshakeContext(context.Background()) }

// HandshakeContext is Handshake that gives up when ctx is done. Giving up ends the
// connection.
func (t *TLSConn) HandshakeContext(ctx context.Context) error {
	if t.done.Load() {
		return nil
	}
	here := t.conn.here()
	switch {
	case here == nil:
		_, err := t.conn.fromGoroutine("handshake", func(here context.Context) (int, error) { return 0, t.handshakeUntil(ctx, here) })
		return err
	case spindle.Current(ctx) != nil: // a task's context
		return t.doHandshake(ctx)
	}
	return t.handshakeUntil(ctx, here)
}

// handshakeUntil performs the handshake in the scope of the task context here and
// gives up when ctx is done.
func (t *TLSConn) handshakeUntil(ctx, here context.Context) error {
	gaveUp, err := untilDone(ctx, here, t.doHandshake)
	if gaveUp {
		return t.conn.opError("handshake", context.Cause(ctx))
	}
	return err
}

// doHandshake performs the handshake in the calling task. Other calls queue
// meanwhile.
func (t *TLSConn) doHandshake(ctx context.Context) error {
	c := t.conn
	if err := c.reads.acquire(ctx, "TLSConn.Handshake"); err != nil {
		return err
	}
	defer c.reads.release()
	if err := t.acquireWrites(ctx, "TLSConn.Handshake"); err != nil {
		return t.netError("handshake", err)
	}
	defer t.releaseWrites()
	h := t.handshake
	switch {
	case h == nil:
		return nil // another task has completed it
	case h.err != nil:
		return h.err
	case h.refuse != nil:
		h.err = t.netError("handshake", h.refuse)
		return h.err
	}
	h.err = t.netError("handshake", net.ErrClosed) // in case of a panic
	err := h.runWithTimeout(ctx, t)
	if t.session.State() == tlsio.Open {
		t.handshake = nil
		t.done.Store(true)
		return nil
	}
	err = t.netError("handshake", err)
	var canceled *spindle.Canceled
	switch {
	case errors.As(err, &canceled): // later calls were not cancelled
	case errors.Is(err, os.ErrDeadlineExceeded):
	default:
		h.err = err
		return err
	}
	c.closed.Store(true)
	c.closeOnLoop()
	return err
}

// runWithTimeout runs the handshake within its timeout.
func (h *handshake) runWithTimeout(ctx context.Context, t *TLSConn) error {
	if h.timeout < 0 {
		return h.run(ctx, t)
	}
	late, err := spindle.MoveOnAfter(ctx, h.timeout, func(ctx context.Context) error { return h.run(ctx, t) })
	if late {
		return os.ErrDeadlineExceeded
	}
	return err
}

func (h *handshake) run(ctx context.Context, t *TLSConn) error {
	if h.needRoots {
		if err := loadRoots(ctx); err != nil {
			return err
		}
	}
	var waitErr error
	err := t.session.Handshake(ctx, func() error {
		waitErr = t.waitInput(ctx)
		return waitErr
	})
	switch {
	case err == nil:
		return nil
	case waitErr != nil && waitErr != io.EOF:
		return waitErr
	case ctx.Err() != nil: // a callback of the Config was cancelled
		return spindle.Checkpoint(ctx)
	}
	return err
}

// loadRoots loads the system's certificate pool, once for each loop and on a worker,
// because crypto/x509 reads files for about ten milliseconds. crypto/x509 keeps the
// pool.
func loadRoots(ctx context.Context) error {
	st := loopStateOf(spindle.LoopOf(ctx))
	if st.rootsLoaded {
		return nil
	}
	_, err := spindle.Abandon(ctx, func() (any, error) {
		x509.SystemCertPool() // the handshake reports an error
		return nil, nil
	})
	if err == nil {
		st.rootsLoaded = true
	}
	return err
}

// StartTLS performs the handshake of t in the middle of a conversation. The
// connection t comes from TLS.Server or TLS.Client, over a Conn that was in use until
// now. Ahead is the buffered reader of that conversation, such as a *bufio.Reader:
// the bytes it holds are the beginning of the handshake. Nil means that there is no
// such reader.
func StartTLS(ctx context.Context, t *TLSConn, ahead interface {
	io.Reader
	Buffered() int
}) error {
	if t.done.Load() {
		panic("stream: StartTLS of a connection that has shaken hands")
	}
	if ahead != nil && ahead.Buffered() > 0 {
		p := make([]byte, ahead.Buffered())
		if _, err := io.ReadFull(ahead, p); err != nil {
			return err
		}
		t.session.Feed(p)
	}
	return t.HandshakeContext(ctx)
}
