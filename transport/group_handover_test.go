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

// TestGroupCloseRefusesBacklog: no connection is made after Close, even if one is in the
// backlog and the accepting loop has not closed its listener yet.
func TestGroupCloseRefusesBacklog(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			withGroups(t, 2, func(t *testing.T, g *loop.Group) {
				address := "127.0.0.1:0"
				if network == "unix" {
					address = filepath.Join(t.TempDir(), "s")
				}
				closeWithBacklog(t, g, network, address)
			})
		})
	}
}

func closeWithBacklog(t *testing.T, g *loop.Group, network, address string) {
	p := newConnCounter()
	s := listenGroup(t, g, network, address, p.options(transport.RoundRobin))
	var late net.Conn
	drained := make(chan struct{})
	front := g.Loops()[0]
	front.CallSoon(func() {
		late = dialGroup(t, s)
		closed := make(chan error)
		go func() { closed <- errors.Join(s.Close(), s.Drain(func() { close(drained) })) }()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if _, err := net.Dial(network, s.Addr().String()); err == nil {
			t.Error("a closed server still listens")
		}
	})
	stop := startGroup(t, g)
	<-drained
	if got, err := io.ReadAll(late); len(got) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %q, %v", got, err)
	}
	stop()
	if n := len(p.made); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestDrainAcceptsBacklog: connections that are in the backlog when a drain begins are made,
// in every loop, whether the drain begins on the loop, elsewhere, or before the loops run.
func TestDrainAcceptsBacklog(t *testing.T) {
	const peers = 20
	for name, spread := range map[string]transport.Spread{"reuse port": transport.ReusePort, "round robin": transport.RoundRobin} {
		for where, begin := range map[string]func(l *loop.Loop, drain func()){
			"on a loop":       func(l *loop.Loop, drain func()) { l.CallSoon(drain) },
			"elsewhere":       func(l *loop.Loop, drain func()) { l.CallSoon(func() { elsewhere(drain) }) },
			"before they run": func(l *loop.Loop, drain func()) { elsewhere(drain) },
		} {
			t.Run(name+", "+where, func(t *testing.T) {
				withGroups(t, 2, func(t *testing.T, g *loop.Group) {
					p := newConnCounter()
					s := listenGroup(t, g, "tcp", "127.0.0.1:0", p.options(spread))
					var all []net.Conn
					for range peers {
						all = append(all, dialGroup(t, s))
					}
					drained := make(chan struct{})
					begin(g.Loops()[0], func() {
						if err := s.Drain(func() { close(drained) }); err != nil {
							t.Error(err)
						}
					})
					stop := startGroup(t, g)
					for _, nc := range all {
						nc.Write([]byte("x"))
						if _, err := nc.Read(make([]byte, 1)); err != nil {
							t.Error(err)
						}
					}
					select {
					case <-drained:
						t.Error("the drain ended before the connections")
					default:
					}
					for _, nc := range all {
						nc.Close()
					}
					<-drained
					if nc, err := net.Dial("tcp", s.Addr().String()); err == nil {
						nc.Close()
						t.Error("a drained server still listens")
					}
					stop()
				})
			})
		}
	}
}

// elsewhere calls fn in a goroutine that belongs to no loop.
func elsewhere(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	<-done
}

// TestHandOverToClosedLoop: a connection handed over to a loop that closes before it
// serves it, or was closed before, is closed.
func TestHandOverToClosedLoop(t *testing.T) {
	withGroups(t, 2, func(t *testing.T, g *loop.Group) {
		p := newConnCounter()
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
		accept() // for the accepting loop itself
		accept() // for the other loop, which does not run
		if s.Conns() != 2 || len(p.made) != 1 {
			t.Fatalf("%d connections, %d made", s.Conns(), len(p.made))
		}
		if err := other.Close(); err != nil { // the connection was not lost: it was closed
			t.Errorf("closing the other loop: %v", err)
		}
		accept() // for the accepting loop
		accept() // handed over to the closed loop
		for _, i := range []int{1, 3} {
			if got, err := io.ReadAll(peers[i]); len(got) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("peer %d: %q, %v", i, got, err)
			}
		}
		if s.Conns() != 2 {
			t.Errorf("%d connections", s.Conns())
		}
		s.Drain(func() { drained = true })
		s.EachConn((*transport.Conn).Abort)
		for !drained {
			if _, err := front.RunOnce(-1); err != nil {
				t.Fatal(err)
			}
		}
		if err := front.Close(); err != nil {
			t.Error(err)
		}
		if n := len(p.ended); n != 2 {
			t.Errorf("ConnectionLost called %d times", n)
		}
		called := false
		s.Drain(func() { called = true })
		if !called {
			t.Error("Drain of a closed group did not call its callback")
		}
	})
}
