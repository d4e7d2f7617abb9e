package transport_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// unreadConn returns a connection with 16 MB unsent, because the peer does not read.
func unreadConn(t *testing.T) (l *loop.Loop, c *transport.Conn, peer *tlstest.Peer, got *bytes.Buffer, lost chan error) {
	t.Helper()
	conn := make(chan *transport.Conn, 1)
	lost, got = make(chan error, 1), &bytes.Buffer{}
	l, s := servingTLS(t, loop.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) {
				c.Write(block(16 << 20))
				conn <- c
			},
			data: func(c *transport.Conn, data []byte) { got.Write(data) },
			lost: func(c *transport.Conn, err error) { lost <- err },
		}
	})
	peer = dialTLS(t, s)
	return l, <-conn, peer, got, lost
}

// wantResponsive checks that the loop still runs callbacks.
func wantResponsive(t *testing.T, l *loop.Loop) {
	t.Helper()
	for range 5 {
		done := make(chan bool)
		on(t, l, func() { l.CallLater(1e5, func() { close(done) }) })
		<-done
	}
}

func TestTLSNotReadingPeerSendsBadRecord(t *testing.T) {
	l, _, peer, _, lost := unreadConn(t)
	wantResponsive(t, l)
	peer.Raw.Write(append([]byte{tlstest.DataRecord, 3, 3, 0, 32}, make([]byte, 32)...))
	wantResponsive(t, l)
	var alert *net.OpError
	if err := <-lost; !errors.As(err, &alert) || alert.Op != "local error" {
		t.Errorf("lost with %v", err)
	}
}

func TestTLSNotReadingPeerUpdatesKeys(t *testing.T) {
	l, c, peer, got, _ := unreadConn(t)
	f := peer.Forge13()
	for range 5 {
		peer.Raw.Write(append(f.RequestKeyUpdate(), f.Record(tlstest.DataRecord, 'k', 'e', 'y')...))
		wantResponsive(t, l)
	}
	until.OnLoop(t, l, func() bool { return got.String() == "keykeykeykeykey" })
	sent := block(16 << 20)
	all := make([]byte, len(sent))
	if _, err := io.ReadFull(peer, all); err != nil || !bytes.Equal(all, sent) {
		t.Fatalf("received bytes differ: %v", err)
	}
	on(t, l, func() { c.Write([]byte("new")) })
	if _, err := io.ReadFull(peer, all[:3]); err != nil || string(all[:3]) != "new" {
		t.Errorf("%q, %v", all[:3], err)
	}
}

// TestTLSUnreadKeyUpdatesAreLimited: replies to a peer that requests key updates and
// does not read are queued up to a limit.
func TestTLSUnreadKeyUpdatesAreLimited(t *testing.T) {
	l, c, peer, got, lost := unreadConn(t)
	f := peer.Forge13()
	for requests := 1; ; requests++ {
		before := 0
		on(t, l, func() { before = c.Unsent() })
		if _, err := peer.Raw.Write(append(f.RequestKeyUpdate(), f.Record(tlstest.DataRecord, 'k')...)); err != nil {
			break
		}
		until.OnLoop(t, l, func() bool { return got.Len() >= requests || c.IsClosing() })
		var after int
		var over bool
		on(t, l, func() { after, over = c.Unsent(), c.IsClosing() })
		if over {
			break
		}
		if after-before > 64 || requests > 300 {
			t.Fatalf("reply %d: %d bytes unsent, %d before", requests, after, before)
		}
	}
	if err := <-lost; err == nil || got.Len() < 100 {
		t.Errorf("lost after %d replies, with %v", got.Len(), err)
	}
}

// TestTLSEndlessKeyUpdates: crypto/tls ends a connection that receives nothing but key
// updates, before one Read blocks the loop for long.
func TestTLSEndlessKeyUpdates(t *testing.T) {
	lost := make(chan error, 1)
	var in uint64
	_, s := servingTLS(t, loop.Options{}, func() *spy {
		return &spy{lost: func(c *transport.Conn, err error) {
			in = c.Info().In
			lost <- err
		}}
	})
	peer := dialTLS(t, s)
	f := peer.Forge13()
	var flood []byte
	for len(flood) < 64<<10 {
		flood = append(flood, f.Record(tlstest.HandshakeRecord, tlstest.KeyUpdate, 0, 0, 1, 0)...)
		f.Update()
	}
	peer.Raw.Write(flood)
	var op *net.OpError
	if err := <-lost; !errors.As(err, &op) || in > 8<<10 {
		t.Errorf("lost with %v after %d bytes", err, in)
	}
}

// servingFailingTLS starts a server on which every handshake must fail. It returns the
// errors of OnError.
func servingFailingTLS(t *testing.T, config *tls.Config, timeout time.Duration) (*loop.Loop, *transport.Server, chan error) {
	t.Helper()
	failed := make(chan error, 10)
	l, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{
		TLS:              config,
		HandshakeTimeout: timeout,
		OnError:          func(err error) { failed <- err },
	}, func() *spy {
		return &spy{made: func(c *transport.Conn) { t.Error("ConnectionMade") }, lost: func(*transport.Conn, error) { t.Error("ConnectionLost") }}
	})
	return l, s, failed
}

func TestTLSHandshakeTimeout(t *testing.T) {
	l, s, failed := servingFailingTLS(t, tlstest.Identity().Server, 10*time.Millisecond)
	peer := dial(t, s)
	peer.Write([]byte{tlstest.HandshakeRecord, 3})
	var op *net.OpError
	if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &op) || op.Op != "handshake" || !op.Timeout() {
		t.Errorf("%v", err)
	}
	if _, err := peer.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
	on(t, l, func() {
		if s.Conns() != 0 {
			t.Error("the connection still counts")
		}
	})
}

func TestTLSPeerLeavesDuringHandshake(t *testing.T) {
	_, s, failed := servingFailingTLS(t, tlstest.Identity().Server, 0)
	hello := &bytes.Buffer{}
	tls.Client(recorder{hello}, tlstest.Identity().Client).Handshake()
	for _, sent := range []int{0, 3, 100, hello.Len()} {
		peer := dial(t, s)
		peer.Write(hello.Bytes()[:sent])
		if sent == hello.Len() {
			peer.Read(make([]byte, 1)) // so that the handshake is half done
			reset(t, peer)
		}
		peer.Close()
		var op *net.OpError
		if err := <-failed; !errors.As(err, &op) || op.Op != "handshake" && op.Op != "read" || op.Addr == nil {
			t.Errorf("after %d bytes: %v", sent, err)
		}
	}
}

// recorder is a connection that records what is written.
type recorder struct{ *bytes.Buffer }

func (recorder) Read([]byte) (int, error)         { return 0, io.EOF }
func (recorder) Close() error                     { return nil }
func (recorder) LocalAddr() net.Addr              { return nil }
func (recorder) RemoteAddr() net.Addr             { return nil }
func (recorder) SetDeadline(time.Time) error      { return nil }
func (recorder) SetReadDeadline(time.Time) error  { return nil }
func (recorder) SetWriteDeadline(time.Time) error { return nil }

func TestTLSPlainClient(t *testing.T) {
	_, s, failed := servingFailingTLS(t, tlstest.Identity().Server, 0)
	peer := dial(t, s)
	peer.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	var header tls.RecordHeaderError
	if err := <-failed; !errors.As(err, &header) {
		t.Errorf("%v", err)
	}
}

// TestTLSWrongCertificate: both ends get the error types of crypto/tls.
func TestTLSWrongCertificate(t *testing.T) {
	l, s, failed := servingFailingTLS(t, tlstest.Identity().Server, 0)
	for _, tc := range []struct {
		name   string
		config *tls.Config
	}{
		{"unknown authority", &tls.Config{RootCAs: tlstest.NewAuthority().Pool(), ServerName: "server.test"}},
		{"another name", &tls.Config{RootCAs: tlstest.Identity().CA.Pool(), ServerName: "other.test"}},
	} {
		refused := make(chan error, 1)
		on(t, l, func() {
			transport.Connect(t.Context(), l, "tcp", s.Addr().String(), transport.ConnectOptions{Protocol: &spy{tb: t, made: func(*transport.Conn) { t.Error("made") }}, TLS: tc.config, OnError: func(err error) { refused <- err }})
		})
		var verification *tls.CertificateVerificationError
		var op *net.OpError
		if err := <-refused; !errors.As(err, &verification) || !errors.As(err, &op) || op.Op != "handshake" {
			t.Errorf("%s: %v", tc.name, err)
		}
		var alert tls.AlertError
		if err := <-failed; !errors.As(err, &op) || op.Op != "remote error" && !errors.As(err, &alert) {
			t.Errorf("%s: OnError got %v", tc.name, err)
		}
	}
}

func TestTLSRenegotiationRefused(t *testing.T) {
	l, s, _ := servingFailingTLS(t, tlstest.Identity().Server, 0)
	refused := make(chan error, 1)
	on(t, l, func() {
		config := tlstest.Identity().Client.Clone()
		config.Renegotiation = tls.RenegotiateOnceAsClient
		transport.Connect(t.Context(), l, "tcp", s.Addr().String(), transport.ConnectOptions{Protocol: &spy{tb: t}, TLS: config, OnError: func(err error) { refused <- err }})
	})
	if err := <-refused; !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}
