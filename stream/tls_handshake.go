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
	"github.com/spindleloop/spindle/loop"
)

// handshake is what a TLSConn needs until it has shaken hands. Crypto/tls cannot
// take a handshake up again, so in it the wire's Read waits.
type handshake struct {
	patience time.Duration   // no limit if negative
	refuse   error           // why it must not begin
	roots    bool            // the authorities that the system trusts are needed
	ahead    []byte          // read before, and not by us
	ctx      context.Context // of the task that shakes hands
	cut      error           // why a wait in it has failed
	failed   error           // for who comes later
}

// read is the wire's Read in the handshake.
func (h *handshake) read(t *TLSConn, p []byte) (n int, err error) {
	if len(h.ahead) > 0 {
		n = copy(p, h.ahead)
		h.ahead = h.ahead[n:]
		return n, nil
	}
	c := t.conn
	// What the peer has to answer must go out first.
	if len(t.pending) > 0 {
		err = t.flush(h.ctx)
	}
	if err == nil {
		n, err = c.tryRead(p)
	}
	for err == syscall.EAGAIN {
		if err = c.reads.begin(h.ctx, c.socket.ResumeReading()); err != nil {
			break
		}
		err = c.reads.waker.Park(h.ctx, "TLSConn.Handshake", &c.reads)
		c.socket.PauseReading()
		if err == nil {
			n, err = c.tryRead(p)
		}
	}
	if err != nil && err != io.EOF {
		err = c.fault("handshake", err)
		h.cut = err
	}
	return n, err
}

// Handshake shakes hands, if that has not been done. Read and Write do it too.
func (t *TLSConn) Handshake() error { return t.HandshakeContext(context.Background()) }

// HandshakeContext is Handshake that is also given up when ctx ends. A handshake
// that was given up ends the connection.
func (t *TLSConn) HandshakeContext(ctx context.Context) error {
	if t.done.Load() {
		return nil
	}
	here := t.conn.home.Here()
	switch {
	case here == nil:
		_, err := t.conn.abroad("handshake", func(here context.Context) (int, error) { return 0, t.shakeUntil(ctx, here) })
		return err
	case spindle.Current(ctx) != nil: // a context of tasks, as it should be
		return t.shake(ctx)
	}
	return t.shakeUntil(ctx, here)
}

// shakeUntil shakes hands in the scope here. Of ctx only its end counts.
func (t *TLSConn) shakeUntil(ctx, here context.Context) error {
	if ctx.Done() == nil {
		return t.shake(here)
	}
	return spindle.WithScope(here, func(here context.Context, s *spindle.Scope) error {
		l := t.conn.loop()
		stop := l.Kernel().AfterFunc(ctx, func() { l.PostWith(loop.DropAtClose, func() { s.Cancel(context.Cause(ctx)) }) })
		defer stop()
		err := t.shake(here)
		var canceled *spindle.Canceled
		if errors.As(err, &canceled) && canceled.Scope == s {
			return t.conn.explain("handshake", context.Cause(ctx))
		}
		return err
	})
}

// shake shakes hands in a task. Whoever comes meanwhile waits in line.
func (t *TLSConn) shake(ctx context.Context) error {
	c := t.conn
	if err := c.reads.enter(ctx, "TLSConn.Handshake"); err != nil {
		return err
	}
	defer c.reads.leave()
	if err := t.enterWrites(ctx, "TLSConn.Handshake"); err != nil {
		return t.fault("handshake", err)
	}
	defer t.leaveWrites()
	h := t.start
	switch {
	case h == nil:
		return nil // somebody else has done it
	case h.failed != nil:
		return h.failed
	case h.refuse != nil:
		h.failed = t.fault("handshake", h.refuse)
		return h.failed
	}
	h.failed = t.fault("handshake", net.ErrClosed) // if something panics
	err := h.limited(ctx, t)
	if t.tls.ConnectionState().HandshakeComplete {
		t.start = nil
		t.done.Store(true)
		return nil
	}
	err = t.fault("handshake", err)
	var canceled *spindle.Canceled
	switch {
	case errors.As(err, &canceled): // whoever comes later was not
	case errors.Is(err, os.ErrDeadlineExceeded):
	default:
		h.failed = err
		return err
	}
	c.closed.Store(true)
	c.end()
	return err
}

// limited shakes hands for as long as that may take.
func (h *handshake) limited(ctx context.Context, t *TLSConn) error {
	if h.patience < 0 {
		return h.run(ctx, t)
	}
	late, err := spindle.MoveOnAfter(ctx, h.patience, func(ctx context.Context) error { return h.run(ctx, t) })
	if late {
		return os.ErrDeadlineExceeded
	}
	return err
}

func (h *handshake) run(ctx context.Context, t *TLSConn) error {
	if h.roots {
		if err := readRoots(ctx); err != nil {
			return err
		}
	}
	h.ctx = ctx
	defer func() { h.ctx = nil }()
	err := t.tls.HandshakeContext(ctx)
	switch {
	case err == nil:
		return nil
	case h.cut != nil: // crypto/tls tells less
		return h.cut
	case ctx.Err() != nil: // something that it called was cancelled
		return spindle.Checkpoint(ctx)
	}
	return err
}

type rootsKey struct{}

// readRoots has the authorities that the system trusts read, once for the loop and
// not on it: to crypto/x509 that is some ten milliseconds of files. It keeps them.
func readRoots(ctx context.Context) error {
	l := spindle.LoopOf(ctx)
	if l.Local(rootsKey{}) != nil {
		return nil
	}
	_, err := spindle.Abandon(ctx, func() (any, error) {
		x509.SystemCertPool() // the handshake will say what was wrong
		return nil, nil
	})
	if err == nil && l.Local(rootsKey{}) == nil {
		l.SetLocal(rootsKey{}, true)
	}
	return err
}

// StartTLS begins TLS in the middle of a conversation: it makes the handshake of t,
// which is a TLSServer or TLSClient of a Conn that was used until now. Ahead is what
// the conversation was read through, such as a *bufio.Reader: what it holds, and has
// not been asked for, is the beginning of the handshake. Nil means that there was
// nothing of the kind.
func StartTLS(ctx context.Context, t *TLSConn, ahead interface {
	io.Reader
	Buffered() int
}) error {
	if t.done.Load() {
		panic("stream: StartTLS of a connection that has shaken hands")
	}
	if ahead != nil && ahead.Buffered() > 0 {
		t.start.ahead = make([]byte, ahead.Buffered())
		if _, err := io.ReadFull(ahead, t.start.ahead); err != nil {
			return err
		}
	}
	return t.HandshakeContext(ctx)
}
