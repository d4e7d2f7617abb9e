package transport_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"testing"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestTLSInputDuringStep: input that arrives while a worker runs a step does not make
// the loop spin.
func TestTLSInputDuringStep(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
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
		wantIdle(t, l)
		close(out)
		if err := <-failed; err == nil {
			t.Error("the handshake succeeded with invalid input")
		}
		<-shaken
	})
}

// slowReader is a connection with reads that report that they have data, and then wait.
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

// TestTLSCloseWithQueuedStep: the coroutine ends even if its step is still queued.
func TestTLSCloseWithQueuedStep(t *testing.T) {
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
		onloop.Offload(l, transport.Handshakes(), atclose.Drop, func() (int, error) {
			close(busy)
			<-release
			return 0, nil
		}, func(int, error) {})
	})
	<-busy
	close(g.open)
	until.OnLoop(t, l, func() bool { return l.Stats().Jobs == 2 })
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

// TestTLSSlowHandshakes: more peers than workers start a handshake and stop. Other
// connections are not delayed.
func TestTLSSlowHandshakes(t *testing.T) {
	lost := make(chan error, 20)
	l, s := serving(t, loop.Options{Workers: 2}, "tcp", "127.0.0.1:0", transport.Options{TLS: tlstest.Identity().Server}, func() *spy { return echoSpy(lost) })
	hello := &bytes.Buffer{}
	tls.Client(recorder{hello}, tlstest.Identity().Client).Handshake()
	for range 10 {
		peer := dial(t, s)
		peer.Write(hello.Bytes())
		peer.Read(make([]byte, 1)) // the handshake is half done
	}
	peer := dialTLS(t, s)
	peer.Close()
	if err := <-lost; err != nil {
		t.Error(err)
	}
	on(t, l, func() {
		if s.Conns() != 10 || l.Stats().Jobs != 0 {
			t.Errorf("%d connections, %d jobs", s.Conns(), l.Stats().Jobs)
		}
	})
	on(t, l, func() { s.EachConn((*transport.Conn).Abort) })
	until.OnLoop(t, l, func() bool { return s.Conns() == 0 })
}

// TestTLSHandshakeBesideBlockingWork: a handshake does not wait for the loop's own workers.
func TestTLSHandshakeBesideBlockingWork(t *testing.T) {
	lost := make(chan error, 1)
	l, s := serving(t, loop.Options{Workers: 1}, "tcp", "127.0.0.1:0", transport.Options{TLS: tlstest.Identity().Server}, func() *spy { return echoSpy(lost) })
	release, finished := make(chan bool), make(chan bool, 3)
	on(t, l, func() {
		for range 3 {
			loop.Offload(l, func() (int, error) { <-release; return 0, nil }, func(int, error) { finished <- true })
		}
	})
	peer := tlstest.NewPeer(dial(t, s).(*net.TCPConn), tls.Client, tlstest.Identity().Client)
	if err := peer.Handshake(); err != nil {
		t.Error(err)
	}
	close(release)
	peer.Close()
	if err := <-lost; err != nil {
		t.Error(err)
	}
	for range 3 { // closing the loop would lose them
		<-finished
	}
}

// TestTLSBusyWorkers: a handshake waits until a worker is free.
func TestTLSBusyWorkers(t *testing.T) {
	lost := make(chan error, 1)
	l, s := serving(t, loop.Options{Workers: 1, MaxOffloads: 1}, "tcp", "127.0.0.1:0", transport.Options{TLS: tlstest.Identity().Server}, func() *spy { return echoSpy(lost) })
	busy, release := make(chan bool), make(chan bool)
	on(t, l, func() {
		for i := range 2 {
			onloop.Offload(l, transport.Handshakes(), atclose.Drop, func() (int, error) {
				if i == 0 {
					close(busy)
				}
				<-release
				return 0, nil
			}, func(int, error) {})
			if i == 0 {
				<-busy
			}
		}
	})
	shaken := make(chan error, 1)
	peer := tlstest.NewPeer(dial(t, s).(*net.TCPConn), tls.Client, tlstest.Identity().Client)
	go func() { shaken <- peer.Handshake() }()
	until.OnLoop(t, l, func() bool { return l.Stats().Timers > 1 }) // the job was refused
	close(release)
	if err := <-shaken; err != nil {
		t.Error(err)
	}
	peer.Close()
	if err := <-lost; err != nil {
		t.Error(err)
	}
}
