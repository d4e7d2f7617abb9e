package transport_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// servingTLS is serving with TLS on TCP.
func servingTLS(t *testing.T, o loop.Options, make func() *spy) (*loop.Loop, *transport.Server) {
	t.Helper()
	return serving(t, o, "tcp", "127.0.0.1:0", transport.Options{
		TLS: tlstest.Identity().Server, HandshakeTimeout: time.Minute, // a slow machine must not decide
		OnError: func(err error) { t.Error(err) },
	}, make)
}

// dialTLS connects a client of the standard library and does the handshake.
func dialTLS(t testing.TB, s *transport.Server) *tlstest.Peer {
	t.Helper()
	p := tlstest.NewPeer(dial(t, s).(*net.TCPConn), tls.Client, tlstest.Identity().Client)
	if err := p.Handshake(); err != nil {
		t.Fatal(err)
	}
	return p
}

func echoSpy(lost chan error) *spy {
	return &spy{
		data:   func(c *transport.Conn, data []byte) { c.Write(data) },
		pause:  (*transport.Conn).PauseReading,
		resume: (*transport.Conn).ResumeReading,
		lost:   func(c *transport.Conn, err error) { lost <- err },
	}
}

// TestTLSEcho: small and large data of a client of the standard library is echoed, and
// both ends close without an error.
func TestTLSEcho(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		lost := make(chan error, 1)
		_, s := servingTLS(t, o, func() *spy { return echoSpy(lost) })
		peer := dialTLS(t, s)
		for _, n := range []int{1, 100, 5000, 20_000} {
			sent := block(n)
			if _, err := peer.Write(sent); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, n)
			if _, err := io.ReadFull(peer, got); err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("%d echoed bytes differ, %v", n, err)
			}
		}
		sent := block(5 << 20)
		go func() {
			peer.Write(sent)
			peer.CloseWrite()
		}()
		got, err := io.ReadAll(peer)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d of %d bytes echoed, %v", len(got), len(sent), err)
		}
		if !peer.Raw.EndsWithAlert() {
			t.Error("the peer got no close_notify")
		}
		if err := <-lost; err != nil {
			t.Errorf("lost with %v", err)
		}
	})
}

// TestTLSConnect: Connect to our own server. Both ends know the negotiated state from
// ConnectionMade on.
func TestTLSConnect(t *testing.T) {
	lost := make(chan error, 2)
	l, s := servingTLS(t, loop.Options{}, func() *spy {
		p := echoSpy(lost)
		p.made = func(c *transport.Conn) {
			if state := c.TLS(); state == nil || !state.HandshakeComplete || state.NegotiatedProtocol != "" {
				t.Errorf("state of the server: %+v", state)
			}
			if _, err := c.Detach(); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("Detach: %v", err)
			}
		}
		return p
	})
	sent := block(300_000)
	var got []byte
	p := &spy{
		tb: t,
		made: func(c *transport.Conn) {
			if state := c.TLS(); state == nil || state.ServerName != "server.test" || len(state.VerifiedChains) == 0 {
				t.Errorf("state of the client: %+v", state)
			}
			c.Write(sent[:10])
			c.Write(sent[10:1000])
			c.Writev([][]byte{sent[1000:1010], sent[1010:30_000], sent[30_000:30_001], sent[30_001:]})
			c.WriteEOF()
			if _, err := c.Write(nil); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Write after WriteEOF: %v", err)
			}
		},
		data: func(c *transport.Conn, data []byte) { got = append(got, data...) },
		lost: func(c *transport.Conn, err error) { lost <- err },
	}
	on(t, l, func() {
		transport.Connect(t.Context(), l, "tcp", s.Addr().String(), transport.ConnectOptions{Protocol: p, TLS: tlstest.Identity().Client, OnError: func(err error) { t.Error(err); lost <- err; lost <- err }})
	})
	for range 2 {
		if err := <-lost; err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes arrived", len(got), len(sent))
	}
}

// TestTLSServerNameFromAddress: a client without a ServerName verifies the host that it
// connects to.
func TestTLSServerNameFromAddress(t *testing.T) {
	lost := make(chan error, 1)
	l, s := servingTLS(t, loop.Options{}, func() *spy { return echoSpy(lost) })
	p := &spy{tb: t, made: func(c *transport.Conn) { c.Close() }}
	on(t, l, func() {
		transport.Connect(t.Context(), l, "tcp", s.Addr().String(), transport.ConnectOptions{Protocol: p, TLS: &tls.Config{RootCAs: tlstest.Identity().CA.Pool()}, OnError: func(err error) { t.Error(err); lost <- err }})
	})
	if err := <-lost; err != nil {
		t.Error(err)
	}
}

// TestTLSGatheredWritesInOneRecord: the small writes of a turn are sent in one record.
func TestTLSGatheredWritesInOneRecord(t *testing.T) {
	_, s := servingTLS(t, loop.Options{}, func() *spy {
		return &spy{data: func(c *transport.Conn, data []byte) {
			for i := range 100 {
				c.Write(bytes.Repeat([]byte{byte(i)}, 10))
			}
		}}
	})
	peer := dialTLS(t, s)
	peer.Write([]byte("go"))
	if n, err := peer.Read(make([]byte, 2000)); n != 1000 || err != nil {
		t.Errorf("%d bytes in the first record, %v", n, err)
	}
}

// TestTLSBufferedAndPaused: decrypted data that does not fit into the protocol's buffer
// is delivered later, even if the socket has no more events.
func TestTLSBufferedAndPaused(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		lost := make(chan error, 1)
		var buf [1000]byte
		var got []byte
		p := &bufferSpy{buffer: func(*transport.Conn) []byte { return buf[:] }, spy: &spy{
			tb: t,
			data: func(c *transport.Conn, data []byte) {
				got = append(got, data...)
				c.PauseReading() // the rest stays inside crypto/tls
				c.Loop().CallSoon(c.ResumeReading)
			},
			lost: func(c *transport.Conn, err error) { lost <- err },
		}}
		var s *transport.Server
		running(t, o, func(l *loop.Loop) {
			var err error
			s, err = transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{TLS: tlstest.Identity().Server, Protocol: func() transport.Protocol { return p }})
			if err != nil {
				t.Fatal(err)
			}
		})
		peer := dialTLS(t, s)
		sent := block(200_000)
		peer.Write(sent)
		peer.Close()
		if err := <-lost; err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d of %d bytes arrived, %v", len(got), len(sent), err)
		}
	})
}
