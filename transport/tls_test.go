package transport_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// servingTLS is serving with TLS on TCP.
func servingTLS(t *testing.T, o loop.Options, make func() *spy) (*loop.Loop, *transport.Server) {
	t.Helper()
	return serving(t, o, "tcp", "127.0.0.1:0", transport.Options{TLS: tlstest.Identity().Server, OnError: func(err error) { t.Error(err) }}, make)
}

// dialTLS is a client of the standard library that has shaken hands.
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

// TestTLSEcho: what a client of the standard library sends comes back, small and
// large, and both ends end in order.
func TestTLSEcho(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
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
				t.Fatalf("%d bytes came back otherwise, %v", n, err)
			}
		}
		sent := block(5 << 20)
		go func() {
			peer.Write(sent)
			peer.CloseWrite()
		}()
		got, err := io.ReadAll(peer)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d of %d bytes came back, %v", len(got), len(sent), err)
		}
		if !peer.Raw.EndsWithAlert() {
			t.Error("the peer was not told of the end")
		}
		if err := <-lost; err != nil {
			t.Errorf("lost with %v", err)
		}
	})
}

// TestTLSConnect: both ends are ours, and each knows what was negotiated, from
// ConnectionMade on.
func TestTLSConnect(t *testing.T) {
	lost := make(chan error, 2)
	l, s := servingTLS(t, loop.Options{}, func() *spy {
		p := echoSpy(lost)
		p.made = func(c *transport.Conn) {
			if state := c.TLS(); state == nil || !state.HandshakeComplete || state.NegotiatedProtocol != "" {
				t.Errorf("the server's state: %+v", state)
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
				t.Errorf("the client's state: %+v", state)
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
		transport.Connect(t.Context(), l, "tcp", s.Addr().String(), p,
			transport.ConnectOptions{TLS: tlstest.Identity().Client}, func(err error) { t.Error(err); lost <- err; lost <- err })
	})
	for range 2 {
		if err := <-lost; err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes", len(got), len(sent))
	}
}

// TestTLSNameOfTheAddress: a client that names no server means the one it connects to.
func TestTLSNameOfTheAddress(t *testing.T) {
	lost := make(chan error, 1)
	l, s := servingTLS(t, loop.Options{}, func() *spy { return echoSpy(lost) })
	p := &spy{tb: t, made: func(c *transport.Conn) { c.Close() }}
	on(t, l, func() {
		transport.Connect(t.Context(), l, "tcp", s.Addr().String(), p,
			transport.ConnectOptions{TLS: &tls.Config{RootCAs: tlstest.Identity().CA.Pool()}}, func(err error) { t.Error(err); lost <- err })
	})
	if err := <-lost; err != nil {
		t.Error(err)
	}
}

// TestTLSOneRecordForManyWrites: the small writes of a turn are one record.
func TestTLSOneRecordForManyWrites(t *testing.T) {
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

// TestTLSHalfClose: a peer that will send no more can be written to, and one that
// was told of our end can go on sending.
func TestTLSHalfClose(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
		half, lost := make(chan *transport.Conn, 1), make(chan error, 1)
		var got []byte
		l, s := servingTLS(t, o, func() *spy {
			return &spy{
				data: func(c *transport.Conn, data []byte) { got = append(got, data...) },
				eof: func(c *transport.Conn) bool {
					half <- c
					return true
				},
				lost: func(c *transport.Conn, err error) { lost <- err },
			}
		})
		peer := dialTLS(t, s)
		peer.Write([]byte("all"))
		peer.CloseWrite()
		c := <-half
		quiet(t, l)
		sent := block(2 << 20)
		on(t, l, func() {
			if string(got) != "all" {
				t.Errorf("got %q", got)
			}
			c.PauseReading()
			c.ResumeReading()
			c.Write(sent)
			c.WriteEOF()
		})
		if got, err := io.ReadAll(peer); string(got) != string(sent) || err != nil {
			t.Errorf("%d of %d bytes, %v", len(got), len(sent), err)
		}
		quiet(t, l)
		on(t, l, func() { c.Close() })
		if err := <-lost; err != nil {
			t.Error(err)
		}
	})
}

// TestTLSWriteEOFLetsThePeerGoOn after it has read the end.
func TestTLSWriteEOFLetsThePeerGoOn(t *testing.T) {
	lost := make(chan error, 1)
	var got []byte
	_, s := servingTLS(t, loop.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) {
				c.Write([]byte("that is all"))
				c.WriteEOF()
			},
			data: func(c *transport.Conn, data []byte) { got = append(got, data...) },
			lost: func(c *transport.Conn, err error) { lost <- err },
		}
	})
	peer := dialTLS(t, s)
	if said, err := io.ReadAll(peer); string(said) != "that is all" || err != nil {
		t.Errorf("%q, %v", said, err)
	}
	sent := block(100_000)
	peer.Write(sent)
	peer.Close()
	if err := <-lost; err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestTLSTruncated: an end that the peer did not announce may be an attacker's.
func TestTLSTruncated(t *testing.T) {
	for name, end := range map[string]func(p *tlstest.Peer){
		"between records": func(p *tlstest.Peer) {},
		"in a header":     func(p *tlstest.Peer) { p.Raw.Write([]byte{tlstest.DataRecord, 3}) },
		"in a record":     func(p *tlstest.Peer) { p.Raw.Write([]byte{tlstest.DataRecord, 3, 3, 0, 40, 1}) },
		"in an alert":     func(p *tlstest.Peer) { p.Raw.Write([]byte{tlstest.AlertRecord, 3, 3, 0, 40, 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			lost := make(chan error, 1)
			var got []byte
			_, s := servingTLS(t, loop.Options{}, func() *spy {
				return &spy{
					data: func(c *transport.Conn, data []byte) { got = append(got, data...) },
					eof:  func(c *transport.Conn) bool { t.Error("EOFReceived"); return false },
					lost: func(c *transport.Conn, err error) { lost <- err },
				}
			})
			peer := dialTLS(t, s)
			peer.Write([]byte("some"))
			end(peer)
			peer.Raw.CloseWrite()
			if err := <-lost; !errors.Is(err, io.ErrUnexpectedEOF) || string(got) != "some" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// TestTLSReset: as on a plain connection.
func TestTLSReset(t *testing.T) {
	lost := make(chan error, 1)
	_, s := servingTLS(t, loop.Options{}, func() *spy { return echoSpy(lost) })
	peer := dialTLS(t, s)
	reset(t, peer.Raw.TCPConn)
	var op *net.OpError
	if err := <-lost; !errors.As(err, &op) || !strings.Contains(err.Error(), "reset") {
		t.Errorf("%v", err)
	}
}

// TestTLSAbort drops what waits, and does not say goodbye.
func TestTLSAbort(t *testing.T) {
	_, s := servingTLS(t, loop.Options{}, func() *spy {
		return &spy{data: func(c *transport.Conn, data []byte) { c.Abort() }}
	})
	peer := dialTLS(t, s)
	peer.Write([]byte("go"))
	if _, err := io.ReadAll(peer); err != nil && !strings.Contains(err.Error(), "reset") || peer.Raw.EndsWithAlert() {
		t.Errorf("%v", err)
	}
}

// bufferedSpy reads into 1000 bytes of its own.
type bufferedSpy struct {
	*spy
	buf [1000]byte
	got []byte
}

func (p *bufferedSpy) Buffer(c *transport.Conn) []byte { return p.buf[:] }
func (p *bufferedSpy) BufferUpdated(c *transport.Conn, n int) {
	p.got = append(p.got, p.buf[:n]...)
	c.PauseReading() // so that the rest waits inside of TLS
	c.Loop().CallSoon(c.ResumeReading)
}

// TestTLSBufferedAndPaused: what TLS has decrypted and the protocol has no room for
// comes later, also when the socket has nothing more to tell.
func TestTLSBufferedAndPaused(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
		lost := make(chan error, 1)
		p := &bufferedSpy{spy: &spy{tb: t, lost: func(c *transport.Conn, err error) { lost <- err }}}
		var s *transport.Server
		steady(t, o, func(l *loop.Loop) {
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
		if err := <-lost; err != nil || !bytes.Equal(p.got, sent) {
			t.Errorf("%d of %d bytes, %v", len(p.got), len(sent), err)
		}
	})
}
