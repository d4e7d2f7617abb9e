package stream

import (
	"net"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/tlsio"
)

// crypto/tls holds mutexes while it calls the underlying connection. If a task
// waited in such a call while another task of the loop wanted the mutex, the loop
// would stop for good. So nothing waits below crypto/tls: Write buffers what the
// socket does not accept, and Read fails with ErrNoInput, which crypto/tls treats as
// temporary. The TLSConn then waits outside crypto/tls, where no mutex is held. The
// handshake is the exception: it does wait inside, because our own locks keep all
// other tasks out.
//
// Those locks are the directions of the Conn. A reader holds reads, a writer holds
// writes, a handshake holds both.

// wire is a TLSConn as the connection underneath crypto/tls.
type wire TLSConn

// Read reads the available bytes without waiting.
func (w *wire) Read(p []byte) (int, error) {
	t := (*TLSConn)(w)
	if t.handshake != nil {
		return t.handshake.read(t, p)
	}
	n, err := t.conn.socket.Read(p)
	if err == syscall.EAGAIN {
		return 0, tlsio.ErrNoInput
	}
	return n, t.conn.netError("read", err)
}

// Write sends p and buffers what the socket does not accept.
func (w *wire) Write(p []byte) (n int, err error) {
	t := (*TLSConn)(w)
	if t.broken == nil && len(t.pending) == 0 {
		n, err = t.conn.socket.Write(p)
		t.setBroken(err)
	}
	if t.broken != nil {
		return n, t.broken
	}
	t.pending = append(t.pending, p[n:]...)
	return len(p), nil
}

// Close does nothing: the TLSConn closes its Conn itself.
func (w *wire) Close() error { return nil }

// The deadline methods do nothing: the TLSConn has its own deadlines. crypto/tls
// sets one for the close notification, in case Write waits, which it never does
// here.
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

func (w *wire) LocalAddr() net.Addr  { return w.conn.LocalAddr() }
func (w *wire) RemoteAddr() net.Addr { return w.conn.RemoteAddr() }
