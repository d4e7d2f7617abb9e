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
	"github.com/spindleloop/spindle/internal/tlsio"
	"github.com/spindleloop/spindle/loop"
)

// TLS is how to secure connections, where TLSServer, TLSClient, DialTLS, ListenTLS
// and TLSHandler do not do.
type TLS struct {
	// Config is what package crypto/tls goes by. It is used as it is, by all
	// connections: it must not be changed, except as crypto/tls allows. What
	// it has called (GetCertificate and the like) is called in the task that
	// shakes hands, and must not block the loop; with the context of the
	// ClientHelloInfo or CertificateRequestInfo it may wait, also in
	// spindle.Blocking. Renegotiation is not supported: a client that allows
	// it fails.
	Config *tls.Config

	// HandshakeTimeout is how long a handshake may take. Zero means 10
	// seconds, less means for ever.
	HandshakeTimeout time.Duration

	// Dialer is how Dial connects.
	Dialer Dialer
}

// TLSConn is a connection secured by crypto/tls. It is a net.Conn, with the
// promises of a Conn: for tasks and for other goroutines, cancellation that leaves
// the session usable, one reader and one writer at a time, in their order.
//
// The first Read or Write shakes hands if nobody has before. A handshake that is
// cancelled, or takes too long, ends the connection. After that a Read, or a Write,
// that was cancelled or ran into its deadline can be followed by others. What such
// a Write counts as written goes out, as soon as there is room.
//
// Encryption is done on the loop, and so are the computations of a handshake, which
// take some hundred microseconds.
type TLSConn struct {
	conn *Conn
	tls  *tls.Conn
	done atomic.Bool // the handshake has succeeded

	// Loop goroutine only.
	start    *handshake // nil once it has succeeded
	pending  []byte     // records for which there was no room yet
	owed     int        // how many bytes of them the peer has caused
	flushing bool       // a task of its own sends them
	broken   error      // why nothing can be sent any more
	linger   loop.Timer // when Close waits no longer for room
}

var _ net.Conn = (*TLSConn)(nil)

// TLSServer secures c, whose other side is a client. The handshake is yet to come.
// Nobody may use c itself any more.
func TLSServer(c *Conn, config *tls.Config) *TLSConn { return TLS{Config: config}.Server(c) }

// TLSClient secures c, whose other side is a server. Config must have a ServerName
// or be InsecureSkipVerify. The handshake is yet to come. Nobody may use c itself
// any more.
func TLSClient(c *Conn, config *tls.Config) *TLSConn { return TLS{Config: config}.Client(c) }

// Server is TLSServer as configured.
func (o TLS) Server(c *Conn) *TLSConn {
	t := o.secure(c, tls.Server)
	t.start.refuse = tlsio.CheckSimulated(c.hub().K, o.Config, false)
	return t
}

// Client is TLSClient as configured.
func (o TLS) Client(c *Conn) *TLSConn {
	t := o.secure(c, tls.Client)
	t.start.refuse = cmp.Or(tlsio.CheckRenegotiation(o.Config), tlsio.CheckSimulated(c.hub().K, o.Config, true))
	t.start.roots = o.Config == nil || o.Config.RootCAs == nil && !o.Config.InsecureSkipVerify
	return t
}

func (o TLS) secure(c *Conn, with func(net.Conn, *tls.Config) *tls.Conn) *TLSConn {
	t := &TLSConn{conn: c, start: &handshake{patience: o.HandshakeTimeout}}
	if o.HandshakeTimeout == 0 {
		t.start.patience = tlsio.DefaultHandshakeTimeout
	}
	t.tls = with((*wire)(t), o.Config)
	return t
}

// Read reads what there is, up to len(p) bytes, waiting for some. It fails with
// io.EOF when the peer has said that it sends no more, or has closed the
// connection between two records; with io.ErrUnexpectedEOF when it was cut inside
// of one.
func (t *TLSConn) Read(p []byte) (int, error) {
	ctx := t.conn.home.Here()
	if ctx == nil {
		return t.conn.abroad("read", func(ctx context.Context) (int, error) { return t.read(ctx, p) })
	}
	return t.read(ctx, p)
}

// ReadBorrow is Read into memory that all connections of the loop share, like
// Conn.ReadBorrow.
func (t *TLSConn) ReadBorrow() ([]byte, error) {
	ctx := t.conn.home.Here()
	if ctx == nil {
		panic("stream: ReadBorrow called from a goroutine that is not a task of the connection's loop")
	}
	buf := t.conn.hub().Buf
	t.conn.hub().Poison(buf)
	n, err := t.read(ctx, buf)
	return buf[:n], err
}

// Write writes all of p, waiting for room.
func (t *TLSConn) Write(p []byte) (int, error) {
	ctx := t.conn.home.Here()
	if ctx == nil {
		return t.conn.abroad("write", func(ctx context.Context) (int, error) { return t.write(ctx, p) })
	}
	return t.write(ctx, p)
}

// CloseWrite tells the peer that no more will be sent, and waits for room to do so.
// The handshake must be over. Reading goes on; the socket is not shut.
func (t *TLSConn) CloseWrite() error {
	ctx := t.conn.home.Here()
	if ctx == nil {
		_, err := t.conn.abroad("close", func(ctx context.Context) (int, error) { return 0, t.closeWrite(ctx) })
		return err
	}
	return t.closeWrite(ctx)
}

// Close closes the connection. The peer is told, unless a Write is under way: that
// fails with net.ErrClosed, and so does a Read. It does not wait: if there is no
// room, the connection stays open for up to five seconds more, or until the run
// ends. CloseWrite before it waits.
func (t *TLSConn) Close() error {
	c := t.conn
	if c.closed.Swap(true) {
		return c.fault("close", net.ErrClosed)
	}
	soon(c.loop(), t.end) // a loop that is closed has done it
	return nil
}

// ConnectionState tells what was negotiated: nothing until the handshake is over.
// To a goroutine that is not a task of the loop it tells that, once the handshake
// is over, and shakes hands if need be: a server of net/http asks but once, and
// first of all.
func (t *TLSConn) ConnectionState() tls.ConnectionState {
	if l := t.conn.loop(); !t.done.Load() && l.Running() && !l.Owns() {
		t.Handshake() // Read will say why it failed
	}
	if !t.done.Load() {
		return tls.ConnectionState{}
	}
	return t.tls.ConnectionState()
}

// NetConn is the connection underneath.
func (t *TLSConn) NetConn() net.Conn { return t.conn }

// LocalAddr is the address of this end.
func (t *TLSConn) LocalAddr() net.Addr { return t.conn.LocalAddr() }

// RemoteAddr is the address of the peer.
func (t *TLSConn) RemoteAddr() net.Addr { return t.conn.RemoteAddr() }

// SetDeadline sets both deadlines. One that passes in a handshake ends the
// connection's use.
func (t *TLSConn) SetDeadline(d time.Time) error { return t.conn.SetDeadline(d) }

// SetReadDeadline has Read fail with os.ErrDeadlineExceeded once d has come, also
// one that waits. The zero Time means never. It does not wait.
func (t *TLSConn) SetReadDeadline(d time.Time) error { return t.conn.SetReadDeadline(d) }

// SetWriteDeadline is SetReadDeadline for Write.
func (t *TLSConn) SetWriteDeadline(d time.Time) error { return t.conn.SetWriteDeadline(d) }

// fault is a failure of crypto/tls, or of the socket, as package net would return
// it: what a peer can bring about is a net.Error, whatever crypto/tls makes of it.
func (t *TLSConn) fault(op string, err error) error {
	if err == nil || err == io.EOF || err == io.ErrUnexpectedEOF {
		return err
	}
	return t.conn.explain(op, err)
}

// end is Close on the loop.
func (t *TLSConn) end() {
	c := t.conn
	if !t.done.Load() || c.socket.Closed() || t.writing() {
		c.end()
		return
	}
	t.tls.CloseWrite()
	t.flushSoon()
	if !t.flushing {
		c.end()
		return
	}
	c.reads.wake(net.ErrClosed)
	t.linger = c.loop().CallLater(lingering, c.end)
}

// writing tells whether a Write is under way, or in line.
func (t *TLSConn) writing() bool {
	w := &t.conn.writes
	return w.busy && !t.flushing || w.wanted()
}

// lingering is how long Close tries to tell the peer: as crypto/tls does.
const lingering = 5 * time.Second

// flushSoon has a task send what is pending, unless somebody is about to.
func (t *TLSConn) flushSoon() {
	c := t.conn
	if len(t.pending) == 0 || t.broken != nil || c.writes.busy || c.home.Ended() {
		return
	}
	c.writes.busy, t.flushing = true, true
	c.home.GoWith(spindle.TaskOptions{Name: "TLSConn flush", Eager: true}, func(ctx context.Context) error {
		defer func() {
			t.flushing = false
			if c.closed.Load() {
				t.linger.Cancel()
				c.end()
			}
			c.writes.leave()
		}()
		t.flush(ctx)
		return nil
	})
}
