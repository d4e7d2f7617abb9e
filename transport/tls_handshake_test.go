package transport_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestTLSThousandConns: a thousand connections at once, with both ends on one loop.
func TestTLSThousandConns(t *testing.T) {
	n := 1000
	if short.UnderRace || testing.Short() {
		n = 100
	}
	lost := make(chan error, 2*n)
	l, s := servingTLS(t, loop.Options{}, func() *spy { return echoSpy(lost) })
	open := 0
	var conns []*transport.Conn
	on(t, l, func() {
		for range n {
			transport.Connect(t.Context(), l, "tcp", s.Addr().String(), transport.ConnectOptions{Protocol: &spy{
				tb: t,
				made: func(c *transport.Conn) {
					conns = append(conns, c)
					c.Write([]byte("x"))
				},
				data: func(c *transport.Conn, data []byte) { open += len(data) },
				lost: func(c *transport.Conn, err error) { lost <- err },
			}, TLS: tlstest.Identity().Client, HandshakeTimeout: time.Minute, OnError: func(err error) { t.Error(err) }})
		}
	})
	until.OnLoop(t, l, func() bool { return open == n || t.Failed() })
	on(t, l, func() {
		for _, c := range conns {
			c.Close()
		}
	})
	for range 2 * n {
		if err := <-lost; err != nil {
			t.Fatal(err)
		}
	}
}

// TestTLSLoopClosesDuringHandshake: a loop that closes during handshakes leaves nothing
// open, and the client's connect fails.
func TestTLSLoopClosesDuringHandshake(t *testing.T) {
	for name, give := range map[string]func(l *loop.Loop, in chan bool){
		"at work":   func(l *loop.Loop, in chan bool) { <-in },
		"in a wait": func(l *loop.Loop, in chan bool) {},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := loop.New(loop.Options{Watchdog: -1})
			if err != nil {
				t.Fatal(err)
			}
			in, out := make(chan bool, 1), make(chan bool)
			config := tlstest.Identity().Server.Clone()
			if name == "at work" {
				config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
					in <- true
					<-out
					return nil, nil
				}
			}
			s, err := transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{
				TLS:      config,
				Protocol: func() transport.Protocol { return &spy{tb: t, made: func(*transport.Conn) { t.Error("made") }} },
			})
			if err != nil {
				t.Fatal(err)
			}
			hello := &bytes.Buffer{}
			tls.Client(recorder{hello}, tlstest.Identity().Client).Handshake()
			peer := dial(t, s)
			peer.Write(hello.Bytes())
			silent, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			var failed error
			transport.Connect(t.Context(), l, "tcp", silent.Addr().String(), transport.ConnectOptions{Protocol: &spy{tb: t}, TLS: tlstest.Identity().Client, OnError: func(err error) { failed = err }})
			ended := make(chan error, 1)
			go func() { ended <- l.Run(context.Background()) }()
			if give(l, in); name == "in a wait" {
				peer.Read(make([]byte, 1))
			}
			client, err := silent.Accept()
			if err != nil {
				t.Fatal(err)
			}
			client.Read(make([]byte, 1))
			l.Stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			close(out)
			client.Close()
			if !errors.Is(failed, net.ErrClosed) {
				t.Errorf("the client failed with %v", failed)
			}
		})
	}
}

// TestTLSConnectCancelled: the timeout and the context of Connect cover the handshake.
func TestTLSConnectCancelled(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	why := errors.New("enough")
	for name, tc := range map[string]struct {
		o    transport.ConnectOptions
		want error
	}{
		"Timeout":          {transport.ConnectOptions{Timeout: 10 * time.Millisecond}, os.ErrDeadlineExceeded},
		"HandshakeTimeout": {transport.ConnectOptions{HandshakeTimeout: 10 * time.Millisecond}, os.ErrDeadlineExceeded},
		"context":          {transport.ConnectOptions{}, why},
	} {
		t.Run(name, func(t *testing.T) {
			l := running(t, loop.Options{}, func(l *loop.Loop) {})
			ctx, cancel := context.WithCancelCause(t.Context())
			tc.o.TLS = tlstest.Identity().Client
			failed := make(chan error, 1)
			on(t, l, func() {
				tc.o.Protocol, tc.o.OnError = &spy{tb: t}, func(err error) { failed <- err }
				transport.Connect(ctx, l, "tcp", silent.Addr().String(), tc.o)
			})
			peer, err := silent.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer peer.Close()
			if name == "context" {
				peer.Read(make([]byte, 1))
				cancel(why)
			}
			if err := <-failed; !errors.Is(err, tc.want) {
				t.Errorf("%v", err)
			}
			cancel(nil)
			drainAll(peer) // until the connection is closed
		})
	}
}

// TestTLSHandshakePanics: a panic in a callback of the tls.Config reaches the loop's
// OnPanic and ends the connection.
func TestTLSHandshakePanics(t *testing.T) {
	config := tlstest.Identity().Server.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { panic("oops") }
	panicked, failed := make(chan any, 1), make(chan error, 1)
	_, s := serving(t, loop.Options{OnPanic: func(p *loop.PanicError) error { panicked <- p; return nil }}, "tcp", "127.0.0.1:0",
		transport.Options{TLS: config, OnError: func(err error) { failed <- err }}, func() *spy { return &spy{} })
	peer := tlstest.NewPeer(dial(t, s).(*net.TCPConn), tls.Client, tlstest.Identity().Client)
	if err := peer.Handshake(); err == nil {
		t.Error("no error")
	}
	<-panicked
	if err := <-failed; err == nil {
		t.Error("no error")
	}
}

// TestTLSHandshakeLocksThread: a handshake that locks its thread fails. It is a
// coroutine, and switching on a locked thread would crash the process.
func TestTLSHandshakeLocksThread(t *testing.T) {
	config := tlstest.Identity().Server.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		runtime.LockOSThread()
		return nil, nil
	}
	failed := make(chan error, 1)
	_, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0",
		transport.Options{TLS: config, OnError: func(err error) { failed <- err }}, func() *spy { return &spy{} })
	tlstest.NewPeer(dial(t, s).(*net.TCPConn), tls.Client, tlstest.Identity().Client).Handshake()
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "runtime.LockOSThread") {
		t.Errorf("failed with %v", err)
	}
}

// TestTLSGroup: the server of a group secures its connections.
func TestTLSGroup(t *testing.T) {
	g, err := loop.NewGroup(2, loop.Options{Watchdog: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	lost := make(chan error, 20)
	gs, err := transport.ListenGroup(g, "tcp", "127.0.0.1:0", transport.Options{
		Spread:   transport.RoundRobin,
		TLS:      tlstest.Identity().Server,
		Protocol: func() transport.Protocol { p := echoSpy(lost); p.tb = t; return p },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			c, err := tls.Dial("tcp", gs.Addr().String(), tlstest.Identity().Client)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			c.Write([]byte("hello"))
			if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for range 8 {
		if err := <-lost; err != nil {
			t.Error(err)
		}
	}
	gs.Close()
	cancel()
	<-ended
}

// TestTLSSessionResumption: sessions are resumed, because all connections share the
// configuration.
func TestTLSSessionResumption(t *testing.T) {
	resumed := make(chan bool, 1)
	config := tlstest.Identity().Client.Clone()
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	l, s := servingTLS(t, loop.Options{}, func() *spy { return &spy{data: func(c *transport.Conn, data []byte) { c.Write(data) }} })
	for _, want := range []bool{false, true} {
		on(t, l, func() {
			transport.Connect(t.Context(), l, "tcp", s.Addr().String(), transport.ConnectOptions{Protocol: &spy{
				tb:   t,
				made: func(c *transport.Conn) { c.Write([]byte("x")) },
				data: func(c *transport.Conn, data []byte) {
					resumed <- c.TLS().DidResume
					c.Close()
				},
			}, TLS: config, OnError: func(err error) { t.Error(err) }})
		})
		if got := <-resumed; got != want {
			t.Errorf("resumed: %v", got)
		}
	}
	until.OnLoop(t, l, func() bool { return s.Conns() == 0 })
}
