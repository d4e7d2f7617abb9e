package transport

import (
	"crypto/tls"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/tlsio"
)

// secure is TLS between a Conn and its socket. It answers like the socket: what it
// cannot do now it leaves undone, and nothing in it waits. Crypto/tls is called on
// the loop, except in the handshake.
type secure struct {
	c     *Conn
	tls   *tls.Conn
	shake *handshake // nil once it has succeeded
	ahead []byte     // received, and not given to crypto/tls yet
	fault error      // of the socket, as crypto/tls was told
	owed  int        // bytes that wait because of the peer
	more  bool       // crypto/tls may have something to be read
	cut   bool       // the socket's end was read
	told  bool       // the peer was told that no more comes
}

// TLS tells what was negotiated, nil on a connection that is not secured (yet).
func (c *Conn) TLS() *tls.ConnectionState {
	c.only("TLS")
	if c.tls == nil || c.tls.shake != nil {
		return nil
	}
	state := c.tls.tls.ConnectionState()
	return &state
}

// wire is a secure as the connection below crypto/tls. Below crypto/tls nothing
// waits, because it holds mutexes: Write only keeps the records, and Read says
// "later".
type wire secure

// Read gives what is there.
func (w *wire) Read(p []byte) (n int, err error) {
	switch {
	case w.shake != nil:
		return w.shake.read(p)
	case len(w.ahead) > 0:
		n = copy(p, w.ahead)
		if w.ahead = w.ahead[n:]; len(w.ahead) == 0 {
			w.ahead = nil
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
		w.cut = true
	default:
		err = c.fault("read", err)
		w.fault = err
	}
	return n, err
}

// Write keeps records for whoever has called crypto/tls to send them.
func (w *wire) Write(p []byte) (int, error) {
	if w.shake != nil {
		return w.shake.write(p)
	}
	st := w.c.st
	st.records = append(st.records, p...)
	return len(p), nil
}

// Close does nothing: the Conn closes its socket itself.
func (w *wire) Close() error { return nil }

// Deadlines that crypto/tls sets are for a Write that waits.
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

func (w *wire) LocalAddr() net.Addr {
	if w.shake != nil {
		return w.shake.local
	}
	local, _ := w.c.ends()
	return local
}

func (w *wire) RemoteAddr() net.Addr {
	if w.shake != nil {
		return w.shake.remote
	}
	_, remote := w.c.ends()
	return remote
}

// read is the socket's Read, decrypted.
func (s *secure) read(p []byte) (n int, err error) {
	n, err = s.tls.Read(p)
	if err := s.answer(); err != nil {
		return n, err
	}
	s.more = true
	switch {
	case err == nil:
		return n, nil
	case err == tlsio.ErrNoInput:
		if s.more = false; n > 0 { // it was of a record behind those bytes
			return n, nil
		}
		return 0, errAgain
	case n > 0: // crypto/tls will say it again
		return n, nil
	}
	s.more = false
	switch {
	case s.fault != nil:
		return 0, s.fault
	case err == io.EOF && s.cut:
		// Crypto/tls lets it pass, because many peers end so. But who cuts a
		// connection can end it so too, and the protocol must be able to tell.
		return 0, io.ErrUnexpectedEOF
	case err == io.EOF:
		s.c.socket.CloseRead()
	}
	return 0, err
}

// answer sends what crypto/tls has to say to what it has read: an alert, new keys.
func (s *secure) answer() error {
	n := len(s.c.st.records)
	if n == 0 {
		return nil
	}
	if s.c.sealed() == 0 {
		s.owed = 0
	}
	if s.owed += n; s.owed > tlsio.MaxUnreadReplies {
		s.c.st.records = s.c.st.records[:0]
		return tlsio.ErrNotReading
	}
	return s.flush()
}

// readable tells whether there may be something to read.
func (s *secure) readable() bool { return s.more || s.c.socket.Readable() }

// write is the socket's Write, encrypted: it takes what there is room for. What was
// encrypted and found no room goes before everything else.
func (s *secure) write(p []byte) (n int, err error) {
	if s.shake != nil {
		return 0, nil
	}
	for len(p) > 0 && s.c.sealed() == 0 && err == nil {
		var m int
		m, err = s.tls.Write(p[:min(len(p), tlsio.MaxPlaintext)])
		n += m
		p = p[m:]
		if e := s.flush(); err == nil {
			err = e
		}
	}
	return n, err
}

// recordSize is how much fits into one record.
const recordSize = 16 << 10

// writev is write of several buffers. Small ones are put together, as each write
// is a record.
func (s *secure) writev(bufs [][]byte) (n int, err error) {
	st := s.c.st
	for len(bufs) > 0 && s.c.sealed() == 0 && err == nil {
		p := bufs[0]
		some := 1
		if len(p) < recordSize {
			st.joined = st.joined[:0]
			for some = 0; some < len(bufs) && len(st.joined)+len(bufs[some]) <= tlsio.MaxPlaintext; some++ {
				st.joined = append(st.joined, bufs[some]...)
			}
			p = st.joined
		}
		var m int
		m, err = s.write(p)
		n += m
		if m < len(p) {
			break
		}
		bufs = bufs[some:]
	}
	return n, err
}

// flush sends the records that crypto/tls has just made, or keeps them.
func (s *secure) flush() error {
	st := s.c.st
	p := st.records
	st.records = p[:0]
	return s.c.sendSealed(p)
}

// farewell tells the peer that no more comes, once, and whether that waits for
// room.
func (c *Conn) farewell() (waits bool, err error) {
	s := c.tls
	if s == nil || s.shake != nil || s.told {
		return false, nil
	}
	s.told = true
	s.tls.CloseWrite()
	err = s.flush()
	return c.unsent != nil, err
}

// sendSealed sends bytes as they are, behind others of that kind, or keeps them.
func (c *Conn) sendSealed(p []byte) (err error) {
	if c.is(lost) || len(p) == 0 {
		return nil
	}
	n := 0
	if c.sealed() == 0 {
		if n, err = c.socket.Write(p); err != nil || n == len(p) {
			return err
		}
	}
	first := c.unsent == nil || c.unsent.empty()
	if c.unsent == nil {
		c.unsent = &unsent{}
	}
	c.unsent.sealed = append(c.unsent.sealed, p[n:]...)
	if first {
		c.waits()
	}
	c.checkHigh()
	return nil
}

// sealed is how many bytes wait that go out as they are.
func (c *Conn) sealed() int {
	if c.unsent == nil {
		return 0
	}
	return len(c.unsent.sealed)
}

// drainSealed sends of these. It tells whether that was all.
func (c *Conn) drainSealed() bool {
	u := c.unsent
	n, err := c.socket.Write(u.sealed)
	if err != nil {
		c.lose(c.fault("write", err))
		return false
	}
	if n > 0 {
		c.touch()
	}
	if u.sealed = u.sealed[n:]; len(u.sealed) > 0 {
		c.checkLow()
		return false
	}
	u.sealed = nil
	return true
}

// seal has everything that waits go out as it is: it was written before TLS began.
func (u *unsent) seal() (n int) {
	for i, p := range u.bufs {
		if i == 0 {
			p = p[u.head:]
		}
		u.sealed = append(u.sealed, p...)
	}
	n = u.size
	u.bufs, u.head, u.size = nil, 0, 0
	return n
}

// StartTLSOptions configure StartTLSServer and StartTLSClient.
type StartTLSOptions struct {
	// HandshakeTimeout is how long the handshake may take. Zero means 10
	// seconds, less means for ever.
	HandshakeTimeout time.Duration

	// Ahead is what the protocol has received and not used: the beginning of
	// the handshake, if the peer did not wait for an answer.
	Ahead []byte
}

// StartTLSServer begins TLS in the middle of a conversation, with a client at the
// other end, and calls secured when the handshake is over. It is asyncio's
// start_tls.
//
// What was written before goes out before, in the clear, and what is written from
// now on waits for the handshake. Nothing is received until then. If the handshake
// fails the connection is lost, with a *net.OpError around the reason.
//
// It fails with net.ErrClosed on a connection that was closed for writing, and with
// ErrUnsent while a file waits to be sent. To secure a connection twice panics.
func (c *Conn) StartTLSServer(config *tls.Config, o StartTLSOptions, secured func()) error {
	c.only("StartTLSServer")
	return c.startTLS(asServer, config, o, secured)
}

// StartTLSClient is StartTLSServer with a server at the other end. Config must have
// a ServerName or be InsecureSkipVerify.
func (c *Conn) StartTLSClient(config *tls.Config, o StartTLSOptions, secured func()) error {
	c.only("StartTLSClient")
	if err := tlsio.CheckRenegotiation(config); err != nil {
		return c.fault("handshake", err)
	}
	return c.startTLS(asClient, config, o, secured)
}

func (c *Conn) startTLS(r role, config *tls.Config, o StartTLSOptions, secured func()) error {
	if secured == nil {
		panic("transport: StartTLS without a function to hear of success")
	}
	if c.is(gathered) {
		c.st.flush()
	}
	switch {
	case c.is(closing | shutting | lost):
		return c.fault("handshake", net.ErrClosed)
	case c.tls != nil:
		panic("transport: StartTLS on a connection that is secured already")
	case c.socket.Ended():
		return c.fault("handshake", syscall.ENOTCONN)
	case c.unsent != nil && len(c.unsent.files) > 0:
		return c.fault("handshake", ErrUnsent)
	}
	if c.unsent != nil {
		c.out += uint64(c.unsent.seal())
	}
	c.shakeHands(r, config, o.HandshakeTimeout, o.Ahead, func(err error) {
		if err == nil {
			c.guarded(secured)
		}
	})
	return nil
}
