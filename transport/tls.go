package transport

import (
	"cmp"
	"crypto/tls"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/tlsio"
)

// tlsLayer is TLS between a Conn and its socket. Its methods behave like those of the
// socket: they never wait, and do only what is possible now. The session runs on the
// loop, except in the handshake.
type tlsLayer struct {
	tlsio.Session
	c         *Conn
	handshake *handshake // nil once it has succeeded
}

// TLS returns the negotiated state, or nil if the connection is not secured or the
// handshake is not done.
func (c *Conn) TLS() *tls.ConnectionState {
	c.checkLoop("TLS")
	if c.tls == nil || c.tls.handshake != nil {
		return nil
	}
	state := c.tls.ConnectionState()
	return &state
}

// tlsSocket is the tlsio.Socket of a tlsLayer.
type tlsSocket tlsLayer

// Receive reads records from the socket.
func (s *tlsSocket) Receive(p []byte) (int, error) {
	n, err := s.c.socket.Read(p)
	s.c.in += uint64(n)
	switch err {
	case nil, io.EOF:
	case errAgain:
		err = tlsio.ErrNoInput
	default:
		err = s.c.opError("read", err)
	}
	return n, err
}

// Send collects records. The caller of the session sends them together.
func (s *tlsSocket) Send(p []byte) {
	records := &s.c.st.tlsRecords
	if s.handshake != nil { // on a worker
		records = &s.handshake.records
	}
	*records = append(*records, p...)
}

func (s *tlsSocket) LocalAddr() net.Addr {
	if s.handshake != nil {
		return s.handshake.local
	}
	local, _ := s.c.addrsOrUnknown()
	return local
}

func (s *tlsSocket) RemoteAddr() net.Addr {
	if s.handshake != nil {
		return s.handshake.remote
	}
	_, remote := s.c.addrsOrUnknown()
	return remote
}

// read is like the socket's Read for decrypted data. It also sends what the input
// caused: alerts, and replies to key updates.
func (t *tlsLayer) read(p []byte) (int, error) {
	if t.c.unsentRaw() == 0 {
		t.Drained()
	}
	n, err := t.Decrypt(p)
	if e := t.flush(); e != nil {
		return n, e
	}
	switch {
	case err == tlsio.ErrNoInput:
		return 0, errAgain
	case err == io.EOF && t.Input() == tlsio.Truncated:
		// crypto/tls accepts EOF without close_notify, because many peers end that
		// way. An attacker can end a connection that way too, so the protocol must
		// be able to distinguish it.
		return 0, io.ErrUnexpectedEOF
	case err == io.EOF:
		t.c.socket.CloseRead()
	}
	return n, err
}

// readable reports whether there may be something to read.
func (t *tlsLayer) readable() bool { return t.Buffered() || t.c.socket.Readable() }

// write encrypts and sends as much of p as the socket takes, like the socket's Write.
// Records that the socket does not take are queued ahead of everything else.
func (t *tlsLayer) write(p []byte) (n int, err error) {
	if t.handshake != nil {
		return 0, nil
	}
	for len(p) > 0 && t.c.unsentRaw() == 0 && err == nil {
		var m int
		m, err = t.Encrypt(p)
		if e := t.flush(); e != nil {
			return n, cmp.Or(err, e)
		}
		n += m
		p = p[m:]
	}
	return n, err
}

// writev is like write for several buffers. It joins small ones, because each write
// makes a record.
func (t *tlsLayer) writev(bufs [][]byte) (n int, err error) {
	st := t.c.st
	for len(bufs) > 0 && t.c.unsentRaw() == 0 && err == nil {
		p := bufs[0]
		some := 1
		if len(p) < tlsio.MaxRecord {
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

// flush sends or queues the records that the session has just made.
func (t *tlsLayer) flush() error {
	st := t.c.st
	p := st.tlsRecords
	st.tlsRecords = p[:0]
	return t.c.sendRaw(p)
}

// sendCloseNotify sends the close_notify alert once. It reports whether the alert is
// queued.
func (c *Conn) sendCloseNotify() (queued bool, err error) {
	if c.tls == nil || c.tls.handshake != nil || c.is(fileMissing) {
		return false, nil
	}
	if made, _ := c.tls.CloseWrite(); !made {
		return false, nil
	}
	err = c.tls.flush()
	return c.unsent != nil, err
}

// sendRaw sends or queues bytes that need no encryption, after other such bytes.
func (c *Conn) sendRaw(p []byte) (err error) {
	if c.phase.lost() || len(p) == 0 {
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
	if len(c.unsent.raw) == 0 {
		c.unsent.rawAt = c.out
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

// StartTLSOptions configure StartTLS.
type StartTLSOptions struct {
	// Server is set for the server side of the handshake. The client side needs ServerName
	// or InsecureSkipVerify in its configuration.
	Server bool

	// HandshakeTimeout limits the handshake. Zero means 10 seconds, negative means
	// no limit.
	HandshakeTimeout time.Duration

	// Ahead is data that the protocol has received and not consumed: the
	// beginning of the handshake, if the peer did not wait for a reply.
	Ahead []byte
}

// StartTLS starts TLS on a plain connection, and calls secured when the handshake is done.
// It corresponds to asyncio's start_tls.
//
// Bytes written before are sent first, unencrypted. Bytes written from now on wait for
// the handshake, and no data is delivered until then. If the handshake fails, the
// connection is lost with a *net.OpError that wraps the reason.
//
// It fails with net.ErrClosed on a connection that is closed for writing, and while a
// file is queued. It panics on a connection that is already secured.
func (c *Conn) StartTLS(config *tls.Config, secured func(), o StartTLSOptions) error {
	c.checkLoop("StartTLS")
	if o.Server {
		return c.startTLS(asServer, config, o, secured)
	}
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
	case c.phase != phaseOpen:
		return c.opError("handshake", net.ErrClosed)
	case c.tls != nil:
		panic("transport: StartTLS on a connection that is already secured")
	case c.socket.Ended():
		return c.opError("handshake", syscall.ENOTCONN)
	case c.unsent != nil && len(c.unsent.files) > 0:
		return c.opError("handshake", errUnsent)
	}
	if c.unsent != nil {
		c.unsent.rawAt = c.out
		c.out += uint64(c.unsent.moveToRaw())
	}
	c.startHandshake(r, config, o.HandshakeTimeout, o.Ahead, func(err error) {
		if err == nil {
			c.guard(secured)
		}
	})
	return nil
}
