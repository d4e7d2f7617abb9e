package tlsio_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/spindleloop/spindle/internal/tlsio"
	"github.com/spindleloop/spindle/internal/tlstest"
)

func TestStepsWithAnyPieces(t *testing.T) {
	for _, piece := range []int{1, 5, 100, 1 << 20} {
		c, s := newClient(tlstest.Identity().Client), newServer(tlstest.Identity().Server)
		if c.State() != tlsio.New {
			t.Error("a new session is not New")
		}
		shake(t, c, s, piece)
		if c.State() != tlsio.Open || !c.ConnectionState().HandshakeComplete {
			t.Error("not open after the handshake")
		}
		encrypt(t, c, s, "hello")
		wantDecrypted(t, s, "hello")
		encrypt(t, s, c, "hi")
		wantDecrypted(t, c, "hi")
	}
}

// TestHandshakeWaits: Handshake calls its function for input, on the caller's stack.
func TestHandshakeWaits(t *testing.T) {
	c, s := newClient(tlstest.Identity().Client), newServer(tlstest.Identity().Server)
	waits := 0
	err := c.Handshake(t.Context(), func() error {
		waits++
		s.Feed(c.take())
		s.Step()
		c.Feed(s.take())
		return nil
	})
	if err != nil || waits == 0 || c.State() != tlsio.Open {
		t.Fatal(err, waits, c.State())
	}
	s.Feed(c.take())
	if !s.Step() || s.Result() != nil {
		t.Fatal(s.Result())
	}
	c.in = s.take()
	encrypt(t, s, c, "hello")
	wantDecrypted(t, c, "hello")
}

func TestHandshakeFailsWithItsWait(t *testing.T) {
	c := newClient(tlstest.Identity().Client)
	err := c.Handshake(context.Background(), func() error { return io.ErrClosedPipe })
	if !errors.Is(err, io.ErrClosedPipe) || c.State() != tlsio.Failed {
		t.Error(err, c.State())
	}
}

// TestFailedHandshakeSendsAnAlert: the peer learns the reason.
func TestFailedHandshakeSendsAnAlert(t *testing.T) {
	c, s := newClient(&tls.Config{RootCAs: x509.NewCertPool(), ServerName: "server.test"}), newServer(tlstest.Identity().Server)
	defer s.Abort()
	c.Step()
	s.Feed(c.take())
	s.Step()
	c.Feed(s.take())
	if !c.Step() || c.State() != tlsio.Failed {
		t.Fatal(c.State())
	}
	s.Feed(c.take())
	var alert *net.OpError
	if !s.Step() || !errors.As(s.Result(), &alert) || alert.Op != "remote error" {
		t.Error(s.Result())
	}
}

// TestAbort: a suspended handshake ends; leak.Main would find its coroutine.
func TestAbort(t *testing.T) {
	c := newClient(tlstest.Identity().Client)
	c.Abort() // does nothing before the first step
	if c.Step() {
		t.Fatal("ended without an answer")
	}
	c.Abort()
	c.Abort()
	if c.State() != tlsio.Failed || !errors.Is(c.Result(), net.ErrClosed) {
		t.Error(c.State(), c.Result())
	}
}

func TestStepPanicsWithTheConfig(t *testing.T) {
	s := newServer(&tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { panic("no certificate") }})
	c := newClient(tlstest.Identity().Client)
	defer c.Abort()
	c.Step()
	s.Feed(c.take())
	defer func() {
		if v := recover(); v != "no certificate" || s.State() != tlsio.Failed {
			t.Error(v, s.State())
		}
	}()
	s.Step()
}

// TestStepOnALockedThread: a coroutine cannot switch there.
func TestStepOnALockedThread(t *testing.T) {
	c := newClient(&tls.Config{InsecureSkipVerify: true})
	s := newServer(&tls.Config{ClientAuth: tls.RequestClientCert, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if hello.Conn.LocalAddr().String() != ":1" || hello.Conn.RemoteAddr().String() != ":2" {
			t.Error(hello.Conn.LocalAddr(), hello.Conn.RemoteAddr())
		}
		runtime.LockOSThread()
		return &tlstest.Identity().Server.Certificates[0], nil
	}})
	c.Step()
	defer c.Abort()
	s.Feed(c.take())
	if !s.Step() || !errors.Is(s.Result(), tlsio.ErrLockedThread) {
		t.Error(s.Result())
	}
}
