package transport_test

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestNoConnectionIsMadeAfterClose: the loop that accepts has not come to close its
// listener yet, and somebody is at the door.
func TestNoConnectionIsMadeAfterClose(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			onEveryGroup(t, 2, func(t *testing.T, g *loop.Group) {
				address := "127.0.0.1:0"
				if network == "unix" {
					address = filepath.Join(t.TempDir(), "s")
				}
				closeAtTheDoor(t, g, network, address)
			})
		})
	}
}

func closeAtTheDoor(t *testing.T, g *loop.Group, network, address string) {
	p := newCensus()
	s := listenGroup(t, g, network, address, p.options(transport.RoundRobin))
	var late net.Conn
	drained := make(chan struct{})
	front := g.Loops()[0]
	front.CallSoon(func() {
		late = dialGroup(t, s)
		closed := make(chan error)
		go func() { closed <- s.Drain(func() { close(drained) }) }()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if _, err := net.Dial(network, s.Addr().String()); err == nil {
			t.Error("it was closed, and still listens")
		}
	})
	stop := start(t, g)
	<-drained
	if got, err := io.ReadAll(late); len(got) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%q, %v", got, err)
	}
	stop()
	if n := len(p.made); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestNoConnectionIsLostOnTheWay: handed over to a loop that is closed before it
// takes it, and to one that was closed before. Both are closed.
func TestNoConnectionIsLostOnTheWay(t *testing.T) {
	onEveryGroup(t, 2, func(t *testing.T, g *loop.Group) {
		p := newCensus()
		s := listenGroup(t, g, "tcp", "127.0.0.1:0", p.options(transport.RoundRobin))
		front, other := g.Loops()[0], g.Loops()[1]
		drained := false
		var peers []net.Conn
		accept := func() {
			peers = append(peers, dialGroup(t, s))
			before := front.Stats().Events
			for front.Stats().Events == before {
				if _, err := front.RunOnce(-1); err != nil {
					t.Fatal(err)
				}
			}
		}
		accept() // for the front itself
		accept() // for the other, which does not run
		if s.Conns() != 2 || len(p.made) != 1 {
			t.Fatalf("%d connections, %d made", s.Conns(), len(p.made))
		}
		if err := other.Close(); err != nil { // the connection was not lost: it was closed
			t.Errorf("the other was closed with %v", err)
		}
		accept() // the front's turn
		accept() // handed to the closed one
		for _, i := range []int{1, 3} {
			if got, err := io.ReadAll(peers[i]); len(got) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("peer %d: %q, %v", i, got, err)
			}
		}
		if s.Conns() != 2 {
			t.Errorf("%d connections", s.Conns())
		}
		s.Drain(func() { drained = true })
		s.AbortConns()
		for !drained {
			if _, err := front.RunOnce(-1); err != nil {
				t.Fatal(err)
			}
		}
		if err := front.Close(); err != nil {
			t.Error(err)
		}
		if n := len(p.ended); n != 2 {
			t.Errorf("%d lost", n)
		}
		called := false
		s.Drain(func() { called = true })
		if !called {
			t.Error("Drain of a closed group does not end")
		}
	})
}
