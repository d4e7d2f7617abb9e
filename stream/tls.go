package stream

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/tlsio"
	"github.com/spindleloop/spindle/loop"
)

// TLS secures connections. It is the configuration of either side; a program has one
// for each *tls.Config.
//
//	secure := stream.TLS{Config: config}
//	c, err := secure.Dial(ctx, "tcp", "example.com:443") // a client
//
//	err := stream.Serve(ctx, ln, func(ctx context.Context, plain *stream.Conn) error { // a server
//		c := secure.Server(plain)
//		defer c.Close()
//		_, err := io.Copy(c, c)
//		return err
//	})
type TLS struct {
	// Config is the configuration for crypto/tls. All connections share it without
	// copying, so it must not be modified, except as crypto/tls allows. Its
	// callbacks, such as GetCertificate, run in the task that performs the handshake
	// and must not block the loop; with the context of the ClientHelloInfo or
	// CertificateRequestInfo they may wait, including in spindle.Blocking.
	// Renegotiation is not supported: a client fails if its Config allows it.
	Config *tls.Config

	// HandshakeTimeout limits the duration of a handshake. Zero means 10 seconds; a
	// negative value means no limit.
	HandshakeTimeout time.Duration

	// Dialer configures how Dial connects.
	Dialer Dialer
}

// TLSConn is a connection secured by crypto/tls. It implements net.Conn and makes
// the same promises as a Conn: tasks and other goroutines may use it, a cancellation
// leaves the session usable, and concurrent reads or writes are served one at a
// time, in order.
//
// The first Read or Write performs the handshake if it has not been done. A
// handshake that is cancelled or exceeds its timeout ends the connection. Later, a
// Read or Write that is cancelled or exceeds its deadline can be followed by others.
// The bytes that such a Write reports as written are sent as soon as the socket
// accepts them.
//
// Encryption runs on the loop. So does the computation of a handshake, which takes
// some hundred microseconds.
type TLSConn struct {
	conn *Conn
	done atomic.Bool // the handshake has succeeded

	// Loop goroutine only. The directions of conn are locks: a reader holds reads, a
	// writer holds writes, a handshake holds both.
	session   tlsio.Session
	handshake *handshake // nil after it has succeeded
	pending   []byte     // records that the socket has not accepted yet
	flushing  bool       // a separate task sends pending
	broken    error      // why writing has failed for good
	linger    loop.Timer // ends Close's wait for pending
}

var _ net.Conn = (*TLSConn)(nil)

// Server returns the server side of a TLS connection over c. The first Read or Write performs the
// handshake, in the task of the connection, so a slow or failed one affects only that connection. The caller must not use c itself any more.
func (o TLS) Server(c *Conn) *TLSConn {
	t := o.secure(c, tls.Server)
	t.handshake.refuse = tlsio.CheckSimulated(c.registry().K, o.Config, false)
	return t
}

// Client returns the client side of a TLS connection over c. Config must set ServerName
// or InsecureSkipVerify. Client does not perform the handshake yet. The caller must not
// use c itself any more.
func (o TLS) Client(c *Conn) *TLSConn {
	t := o.secure(c, tls.Client)
	t.handshake.refuse = cmp.Or(tlsio.CheckRenegotiation(o.Config), tlsio.CheckSimulated(c.registry().K, o.Config, true))
	t.handshake.needRoots = tlsio.UsesSystemRoots(o.Config)
	return t
}

func (o TLS) secure(c *Conn, side func(net.Conn, *tls.Config) *tls.Conn) *TLSConn {
	t := &TLSConn{conn: c, handshake: &handshake{timeout: o.HandshakeTimeout}}
	if o.HandshakeTimeout == 0 {
		t.handshake.timeout = tlsio.DefaultHandshakeTimeout
	}
	t.session.Init(side, o.Config, (*tlsSocket)(t))
	return t
}

// Read reads up to len(p) bytes, waiting until at least one is available. It returns
// io.EOF after the peer's close notification, or if the peer closed the connection
// between two records, and io.ErrUnexpectedEOF if the connection ended within a
// record.
func (t *TLSConn) Read(p []byte) (int, error) {
	ctx := t.conn.here()
	if ctx == nil {
		return t.conn.fromGoroutine("read", func(ctx context.Context) (int, error) { return t.read(ctx, p) })
	}
	return t.read(ctx, p)
}

// ReadBorrow is Read into a buffer that all connections of the loop share; see
// Conn.ReadBorrow.
func (t *TLSConn) ReadBorrow() ([]byte, error) {
	ctx := t.conn.here()
	if ctx == nil {
		panic("stream: ReadBorrow called from a goroutine that is not a task of the connection's loop")
	}
	buf := t.conn.registry().Buf
	t.conn.registry().Poison(buf)
	n, err := t.read(ctx, buf)
	return buf[:n], err
}

// Write writes all of p, waiting while the socket's buffer is full.
func (t *TLSConn) Write(p []byte) (int, error) {
	ctx := t.conn.here()
	if ctx == nil {
		return t.conn.fromGoroutine("write", func(ctx context.Context) (int, error) { return t.write(ctx, p) })
	}
	return t.write(ctx, p)
}

// CloseWrite sends a close notification, waiting while the socket's buffer is full.
// The handshake must be complete. Reading continues; the socket is not shut down.
func (t *TLSConn) CloseWrite() error {
	ctx := t.conn.here()
	if ctx == nil {
		_, err := t.conn.fromGoroutine("close", func(ctx context.Context) (int, error) { return 0, t.closeWrite(ctx) })
		return err
	}
	return t.closeWrite(ctx)
}

// Close closes the connection. Pending Reads and Writes fail with net.ErrClosed.
// Close sends a close notification, unless a Write is pending. It does not wait: if
// the socket's buffer is full, the socket stays open for up to five more seconds or
// until the run ends. To wait for the notification, call CloseWrite first.
func (t *TLSConn) Close() error {
	c := t.conn
	if c.closed.Swap(true) {
		return c.netError("close", net.ErrClosed)
	}
	runOnLoop(c.loop(), t.closeOnLoop) // a closed loop has closed the connection
	return nil
}

// ConnectionState returns the negotiated parameters, or the zero value before the
// handshake is complete. For a goroutine that is not a task of the loop, it performs
// the handshake first, because a net/http server calls ConnectionState once, before
// anything else.
func (t *TLSConn) ConnectionState() tls.ConnectionState {
	if l := t.conn.loop(); !t.done.Load() && l.Internal().Running() && !l.Owns() {
		t.Handshake() // Read reports a failure
	}
	if !t.done.Load() {
		return tls.ConnectionState{}
	}
	return t.session.ConnectionState()
}

// NetConn returns the underlying connection.
func (t *TLSConn) NetConn() net.Conn { return t.conn }

// LocalAddr returns the local address.
func (t *TLSConn) LocalAddr() net.Addr { return t.conn.LocalAddr() }

// RemoteAddr returns the peer's address.
func (t *TLSConn) RemoteAddr() net.Addr { return t.conn.RemoteAddr() }

// SetDeadline sets the read and write deadlines. A deadline that passes during the
// handshake ends the connection.
func (t *TLSConn) SetDeadline(d time.Time) error { return t.conn.SetDeadline(d) }

// SetReadDeadline sets the time after which Read fails with os.ErrDeadlineExceeded,
// including a pending Read. The zero Time means no deadline. It does not wait.
func (t *TLSConn) SetReadDeadline(d time.Time) error { return t.conn.SetReadDeadline(d) }

// SetWriteDeadline sets the deadline for Write, as SetReadDeadline does for Read.
func (t *TLSConn) SetWriteDeadline(d time.Time) error { return t.conn.SetWriteDeadline(d) }

// netError returns a failure of crypto/tls or of the socket as package net would: an
// error that a peer can cause is a net.Error, whatever its type in crypto/tls.
func (t *TLSConn) netError(op string, err error) error {
	if err == nil || err == io.EOF || err == io.ErrUnexpectedEOF {
		return err
	}
	return t.conn.opError(op, err)
}

// closeOnLoop sends the close notification and closes the connection. Loop goroutine
// only.
func (t *TLSConn) closeOnLoop() {
	c := t.conn
	if !t.done.Load() || c.socket.Closed() || t.writing() {
		c.closeOnLoop()
		return
	}
	t.session.CloseWrite()
	t.flushSoon()
	if !t.flushing {
		c.closeOnLoop()
		return
	}
	c.reads.wake(net.ErrClosed)
	t.linger = c.loop().CallLater(lingerTimeout, c.closeOnLoop)
}

// writing reports whether a Write is pending or queued.
func (t *TLSConn) writing() bool {
	w := &t.conn.writes
	return w.busy() && !t.flushing || w.contended()
}

// lingerTimeout is how long Close tries to send the close notification, as in
// crypto/tls.
const lingerTimeout = 5 * time.Second

// flushSoon starts a task that sends the pending records, unless another task is
// about to.
func (t *TLSConn) flushSoon() {
	c := t.conn
	if len(t.pending) == 0 || t.broken != nil || c.writes.busy() || c.nursery.Ended() {
		return
	}
	c.writes.holder, t.flushing = held, true
	c.nursery.GoWith(spindle.TaskOptions{Name: "TLSConn flush", Eager: true, Values: coro.Helper{}}, func(ctx context.Context) error {
		defer func() {
			t.flushing = false
			if c.closed.Load() {
				t.linger.Cancel()
				c.closeOnLoop()
			}
			c.writes.release()
		}()
		t.flush(ctx)
		return nil
	})
}
