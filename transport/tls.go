package transport

import (
	"crypto/tls"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/tlsio"
)

// tlsLayer is TLS between a Conn and its socket. Its methods behave like those of the
// socket: they never wait, and do only what is possible now. crypto/tls is called on
// the loop, except in the handshake.
type tlsLayer struct {
	c               *Conn
	tls             *tls.Conn
	handshake       *handshake // nil once it has succeeded
	pending         []byte     // received, and not passed to crypto/tls yet
	readErr         error      // error of the socket, as returned to crypto/tls
	unreadReplies   int        // queued bytes that the peer caused
	buffered        bool       // crypto/tls may hold data to be read
	eof             bool       // the socket returned EOF
	closeNotifySent bool
}

// TLS returns the negotiated state, or nil if the connection is not secured or the
// handshake is not done.
func (c *Conn) TLS() *tls.ConnectionState {
	c.checkLoop("TLS")
	if c.tls == nil || c.tls.handshake != nil {
		return nil
	}
	state := c.tls.tls.ConnectionState()
	return &state
}

// tlsWire is the tlsLayer as the net.Conn below crypto/tls. Nothing may wait there,
// because crypto/tls holds mutexes: Write only collects the records, and Read fails with
// tlsio.ErrNoInput.
type tlsWire tlsLayer

// Read returns what was received.
func (w *tlsWire) Read(p []byte) (n int, err error) {
	switch {
	case w.handshake != nil:
		return w.handshake.read(p)
	case len(w.pending) > 0:
		n = copy(p, w.pending)
		if w.pending = w.pending[n:]; len(w.pending) == 0 {
			w.pending = nil
		}
		return n, nil
	}
	c := w.c
	n, err = c.socket.Read(p)
	c.in += uint64(n)
	switch {
	case err == nil:
	case err == errAgain:
		err = tlsio.ErrNoInput
	case err == io.EOF:
		w.eof = true
	default:
		err = c.opError("read", err)
		w.readErr = err
	}
	return n, err
}

// Write collects records. The caller of crypto/tls sends them.
func (w *tlsWire) Write(p []byte) (int, error) {
	if w.handshake != nil {
		return w.handshake.write(p)
	}
	st := w.c.st
	st.tlsRecords = append(st.tlsRecords, p...)
	return len(p), nil
}

// Close does nothing: the Conn closes its socket itself.
func (w *tlsWire) Close() error { return nil }

// crypto/tls sets deadlines for a Write that blocks, which this one does not.
func (w *tlsWire) SetDeadline(time.Time) error      { return nil }
func (w *tlsWire) SetReadDeadline(time.Time) error  { return nil }
func (w *tlsWire) SetWriteDeadline(time.Time) error { return nil }

func (w *tlsWire) LocalAddr() net.Addr {
	if w.handshake != nil {
		return w.handshake.local
	}
	local, _ := w.c.addrsOrUnknown()
	return local
}

func (w *tlsWire) RemoteAddr() net.Addr {
	if w.handshake != nil {
		return w.handshake.remote
	}
	_, remote := w.c.addrsOrUnknown()
	return remote
}

// read is like the socket's Read for decrypted data.
func (t *tlsLayer) read(p []byte) (n int, err error) {
	n, err = t.tls.Read(p)
	if err := t.sendReplies(); err != nil {
		return n, err
	}
	t.buffered = true
	switch {
	case err == nil:
		return n, nil
	case err == tlsio.ErrNoInput:
		if t.buffered = false; n > 0 { // crypto/tls tried to read the next record too
			return n, nil
		}
		return 0, errAgain
	case n > 0: // crypto/tls returns the error again
		return n, nil
	}
	t.buffered = false
	switch {
	case t.readErr != nil:
		return 0, t.readErr
	case err == io.EOF && t.eof:
		// crypto/tls accepts EOF without close_notify, because many peers end that
		// way. An attacker can end a connection that way too, so the protocol must
		// be able to distinguish it.
		return 0, io.ErrUnexpectedEOF
	case err == io.EOF:
		t.c.socket.CloseRead()
	}
	return 0, err
}

// sendReplies sends what crypto/tls wrote in response to input: alerts, key updates.
func (t *tlsLayer) sendReplies() error {
	n := len(t.c.st.tlsRecords)
	if n == 0 {
		return nil
	}
	if t.c.unsentRaw() == 0 {
		t.unreadReplies = 0
	}
	if t.unreadReplies += n; t.unreadReplies > tlsio.MaxUnreadReplies {
		t.c.st.tlsRecords = t.c.st.tlsRecords[:0]
		return tlsio.ErrNotReading
	}
	return t.flush()
}

// readable reports whether there may be something to read.
func (t *tlsLayer) readable() bool { return t.buffered || t.c.socket.Readable() }

// write encrypts and sends as much of p as the socket takes, like the socket's Write.
// Records that the socket does not take are queued ahead of everything else.
func (t *tlsLayer) write(p []byte) (n int, err error) {
	if t.handshake != nil {
		return 0, nil
	}
	for len(p) > 0 && t.c.unsentRaw() == 0 && err == nil {
		var m int
		m, err = t.tls.Write(p[:min(len(p), tlsio.MaxPlaintext)])
		n += m
		p = p[m:]
		if e := t.flush(); err == nil {
			err = e
		}
	}
	return n, err
}

// maxRecord is the most plaintext that fits into one record.
const maxRecord = 16 << 10

// writev is like write for several buffers. It joins small ones, because each write
// makes a record.
func (t *tlsLayer) writev(bufs [][]byte) (n int, err error) {
	st := t.c.st
	for len(bufs) > 0 && t.c.unsentRaw() == 0 && err == nil {
		p := bufs[0]
		some := 1
		if len(p) < maxRecord {
			st.joinBuf = st.joinBuf[:0]
			for some = 0; some < len(bufs) && len(st.joinBuf)+len(bufs[some]) <= tlsio.MaxPlaintext; some++ {
				st.joinBuf = append(st.joinBuf, bufs[some]...)
			}
			p = st.joinBuf
		}
		var m int
		m, err = t.write(p)
		n += m
		if m < len(p) {
			break
		}
		bufs = bufs[some:]
	}
	return n, err
}

// flush sends or queues the records that crypto/tls has just made.
func (t *tlsLayer) flush() error {
	st := t.c.st
	p := st.tlsRecords
	st.tlsRecords = p[:0]
	return t.c.sendRaw(p)
}

// sendCloseNotify sends the close_notify alert once. It reports whether the alert is
// queued.
func (c *Conn) sendCloseNotify() (queued bool, err error) {
	t := c.tls
	if t == nil || t.handshake != nil || t.closeNotifySent {
		return false, nil
	}
	t.closeNotifySent = true
	t.tls.CloseWrite()
	err = t.flush()
	return c.unsent != nil, err
}

// sendRaw sends or queues bytes that need no encryption, after other such bytes.
func (c *Conn) sendRaw(p []byte) (err error) {
	if c.is(lost) || len(p) == 0 {
		return nil
	}
	n := 0
	if c.unsentRaw() == 0 {
		if n, err = c.socket.Write(p); err != nil || n == len(p) {
			return err
		}
	}
	first := c.unsent == nil || c.unsent.empty()
	if c.unsent == nil {
		c.unsent = &sendQueue{}
	}
	c.unsent.raw = append(c.unsent.raw, p[n:]...)
	if first {
		c.noteQueued()
	}
	c.checkHigh()
	return nil
}

// unsentRaw returns the number of queued bytes that need no encryption.
func (c *Conn) unsentRaw() int {
	if c.unsent == nil {
		return 0
	}
	return len(c.unsent.raw)
}

// drainRaw sends queued bytes that need no encryption. It reports whether all were sent.
func (c *Conn) drainRaw() bool {
	q := c.unsent
	n, err := c.socket.Write(q.raw)
	if err != nil {
		c.lose(c.opError("write", err))
		return false
	}
	if n > 0 {
		c.noteSent()
	}
	if q.raw = q.raw[n:]; len(q.raw) > 0 {
		c.checkLow()
		return false
	}
	q.raw = nil
	return true
}

// moveToRaw marks everything queued as needing no encryption, because it was written
// before StartTLS.
func (q *sendQueue) moveToRaw() (n int) {
	for i, p := range q.bufs {
		if i == 0 {
			p = p[q.sentHead:]
		}
		q.raw = append(q.raw, p...)
	}
	n = q.size
	q.bufs, q.sentHead, q.size = nil, 0, 0
	return n
}

// StartTLSOptions configure StartTLSServer and StartTLSClient.
type StartTLSOptions struct {
	// HandshakeTimeout limits the handshake. Zero means 10 seconds, negative means
	// no limit.
	HandshakeTimeout time.Duration

	// Ahead is data that the protocol has received and not consumed: the
	// beginning of the handshake, if the peer did not wait for a reply.
	Ahead []byte
}

// StartTLSServer starts TLS on a plain connection, as the server side, and calls
// secured when the handshake is done. It corresponds to asyncio's start_tls.
//
// Bytes written before are sent first, unencrypted. Bytes written from now on wait for
// the handshake, and no data is delivered until then. If the handshake fails, the
// connection is lost with a *net.OpError that wraps the reason.
//
// It fails with net.ErrClosed on a connection that is closed for writing, and with
// ErrUnsent while a file is queued. It panics on a connection that is already secured.
func (c *Conn) StartTLSServer(config *tls.Config, o StartTLSOptions, secured func()) error {
	c.checkLoop("StartTLSServer")
	return c.startTLS(asServer, config, o, secured)
}

// StartTLSClient is like StartTLSServer for the client side. config must set ServerName
// or InsecureSkipVerify.
func (c *Conn) StartTLSClient(config *tls.Config, o StartTLSOptions, secured func()) error {
	c.checkLoop("StartTLSClient")
	if err := tlsio.CheckRenegotiation(config); err != nil {
		return c.opError("handshake", err)
	}
	return c.startTLS(asClient, config, o, secured)
}

func (c *Conn) startTLS(r role, config *tls.Config, o StartTLSOptions, secured func()) error {
	if secured == nil {
		panic("transport: StartTLS with a nil secured function")
	}
	if c.is(hasGathered) {
		c.st.flush()
	}
	switch {
	case c.is(closing | shutting | lost):
		return c.opError("handshake", net.ErrClosed)
	case c.tls != nil:
		panic("transport: StartTLS on a connection that is already secured")
	case c.socket.Ended():
		return c.opError("handshake", syscall.ENOTCONN)
	case c.unsent != nil && len(c.unsent.files) > 0:
		return c.opError("handshake", ErrUnsent)
	}
	if c.unsent != nil {
		c.out += uint64(c.unsent.moveToRaw())
	}
	c.startHandshake(r, config, o.HandshakeTimeout, o.Ahead, func(err error) {
		if err == nil {
			c.guard(secured)
		}
	})
	return nil
}
