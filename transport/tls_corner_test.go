package transport_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestTLSTheEndWaitsForAPause: also when it came in one packet with the last data.
func TestTLSTheEndWaitsForAPause(t *testing.T) {
	conn, lost := make(chan *transport.Conn, 1), make(chan error, 1)
	resumed := false
	l, s := servingTLS(t, loop.Options{}, func() *spy {
		return &spy{
			data: func(c *transport.Conn, data []byte) {
				c.PauseReading()
				conn <- c
			},
			eof: func(c *transport.Conn) bool {
				if !resumed {
					t.Error("the end, while reading is paused")
				}
				return false
			},
			lost: func(c *transport.Conn, err error) { lost <- err },
		}
	})
	peer := dialTLS(t, s)
	f := peer.Forge13()
	peer.Raw.Write(append(f.Record(tlstest.DataRecord, 'x'), f.Record(tlstest.AlertRecord, 1, 0)...))
	c := <-conn
	on(t, l, func() {
		resumed = true
		c.ResumeReading()
	})
	if err := <-lost; err != nil {
		t.Error(err)
	}
}

// TestTLSAfterTheEnd: what comes behind close_notify is nobody's business, and no
// reason to turn; that the peer is gone is noticed by writing.
func TestTLSAfterTheEnd(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
		half, lost := make(chan *transport.Conn, 10), make(chan error, 1)
		l, s := servingTLS(t, o, func() *spy {
			return &spy{
				eof: func(c *transport.Conn) bool {
					half <- c
					return true
				},
				lost: func(c *transport.Conn, err error) { lost <- err },
			}
		})
		peer := dialTLS(t, s)
		peer.CloseWrite()
		c := <-half
		peer.Raw.Write([]byte("noise"))
		quiet(t, l)
		peer.Raw.CloseWrite()
		quiet(t, l)
		if len(half) != 0 {
			t.Error("the end was told again")
		}
		reset(t, peer.Raw.TCPConn)
		until(t, l, func() bool {
			c.Write([]byte("anybody?"))
			return c.IsClosing()
		})
		if err := <-lost; err == nil {
			t.Error("lost without an error")
		}
	})
}

// TestTLSMarksOfWhatIsEncrypted: it counts like what is not yet.
func TestTLSMarksOfWhatIsEncrypted(t *testing.T) {
	paused := make(chan int, 1)
	l, s := servingTLS(t, loop.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) {
				c.SetWriteBuffer(4 << 10)
				c.SetWriteLimits(10_000, 1000)
				for range 20 { // until some wait; they are one encryption each
					if c.Unsent() == 0 {
						c.Write(make([]byte, 60_000))
					}
				}
			},
			pause: func(c *transport.Conn) {
				paused <- c.Unsent()
				c.Abort()
			},
		}
	})
	dialTLS(t, s)
	if n := <-paused; n <= 10_000 {
		t.Errorf("told to pause at %d", n)
	}
	until(t, l, func() bool { return s.Conns() == 0 })
}

// TestTLSBytesWhileAWorkerIsAtIt do not keep the loop busy.
func TestTLSBytesWhileAWorkerIsAtIt(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
		in, out := make(chan bool), make(chan bool)
		config := tlstest.Identity().Server.Clone()
		config.GetConfigForClient = func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			if info.Conn.RemoteAddr() == nil || info.Conn.LocalAddr() == nil {
				t.Error("no address")
			}
			close(in)
			<-out
			return nil, nil
		}
		failed := make(chan error, 1)
		l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{TLS: config, OnError: func(err error) { failed <- err }}, func() *spy { return &spy{} })
		peer := tlstest.NewPeer(dial(t, s).(*net.TCPConn), tls.Client, tlstest.Identity().Client)
		shaken := make(chan error, 1)
		go func() { shaken <- peer.Handshake() }()
		<-in
		peer.Raw.TCPConn.Write(make([]byte, 100))
		quiet(t, l)
		close(out)
		if err := <-failed; err == nil {
			t.Error("noise was taken for a handshake")
		}
		<-shaken
	})
}

// slowReader is a connection whose reads tell that they have something, and wait.
type slowReader struct {
	net.Conn
	has, open chan bool
}

func (g *slowReader) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	select {
	case g.has <- true:
	default:
	}
	<-g.open
	return n, err
}

// TestTLSCloseWithAStepInLine: the coroutine ends although no worker comes to it.
func TestTLSCloseWithAStepInLine(t *testing.T) {
	l, err := loop.New(loop.Options{Workers: 1, Watchdog: -1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{
		TLS:      tlstest.Identity().Server,
		Protocol: func() transport.Protocol { return &spy{tb: t} },
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.Background()) }()
	raw := dial(t, s)
	g := &slowReader{raw, make(chan bool, 1), make(chan bool)}
	shaken := make(chan error, 1)
	go func() { shaken <- tls.Client(g, tlstest.Identity().Client).Handshake() }()
	<-g.has // the first step is done
	busy, release := make(chan bool), make(chan bool)
	on(t, l, func() {
		loop.OffloadWith(l, loop.DropAtClose, func() (int, error) {
			close(busy)
			<-release
			return 0, nil
		}, func(int, error) {})
	})
	<-busy
	close(g.open)
	until(t, l, func() bool { return l.Stats().Jobs == 2 })
	l.Stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	close(release)
	<-shaken
}

// TestStartTLSWithoutAnAnswer: what waits for the handshake does not keep the loop
// busy, although there is room.
func TestStartTLSWithoutAnAnswer(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
		before := block(8 << 20)
		l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
			return &spy{made: func(c *transport.Conn) {
				c.Write(before)
				c.StartTLSServer(tlstest.Identity().Server, transport.StartTLSOptions{}, func() {})
				c.Write([]byte("secret"))
				c.Close()
			}}
		})
		peer := dial(t, s)
		if _, err := io.ReadFull(peer, make([]byte, len(before))); err != nil {
			t.Fatal(err)
		}
		quiet(t, l)
		peer.Close()
		until(t, l, func() bool { return s.Conns() == 0 })
	})
}
