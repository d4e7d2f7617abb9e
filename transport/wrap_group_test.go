package transport_test

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestListenGroupOnASocket: all loops serve an existing listener, which stays usable when
// the server is closed.
func TestListenGroupOnASocket(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			withGroups(t, 2, func(t *testing.T, g *loop.Group) {
				address := "127.0.0.1:0"
				if network == "unix" {
					address = filepath.Join(t.TempDir(), "s")
				}
				ln, err := net.Listen(network, address)
				if err != nil {
					t.Fatal(err)
				}
				defer ln.Close()
				p := newConnCounter()
				o := p.options(0)
				o.Sock = ln.(syscall.Conn)
				s, err := transport.ListenGroup(g, "", "", o)
				if err != nil {
					t.Fatal(err)
				}
				if s.Addr().String() != ln.Addr().String() || s.Addr().Network() != network {
					t.Errorf("listens at %v", s.Addr())
				}
				stop := startGroup(t, g)
				defer stop()
				for range 4 {
					wantEcho(t, dialGroup(t, s))
				}
				if n := p.counts(g); n[0] != 2 || n[1] != 2 {
					t.Errorf("connections by loop: %v", n)
				}
				drained := make(chan struct{})
				s.EachConn((*transport.Conn).Abort)
				if err := s.Drain(func() { close(drained) }); err != nil {
					t.Error(err)
				}
				<-drained
				wantAccepts(t, ln)
			})
		})
	}
}

// wantAccepts fails unless ln still accepts connections. The loop may have accepted and
// closed the first ones before it stopped.
func wantAccepts(t *testing.T, ln net.Listener) {
	t.Helper()
	accepted := make(chan error, 1)
	go func() {
		c, err := ln.Accept()
		accepted <- err
		if err == nil {
			c.Close() // the client sees this after the result was sent
		}
	}()
	for {
		c, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c.Read(make([]byte, 1)) // until one side or the other closes it
		c.Close()
		select {
		case err := <-accepted:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}

func TestListenGroupOnASocketErrors(t *testing.T) {
	withGroups(t, 1, func(t *testing.T, g *loop.Group) {
		near, _ := tcpPair(t)
		o := newConnCounter().options(0)
		o.Sock = near
		if _, err := transport.ListenGroup(g, "", "", o); err == nil {
			t.Error("a connection was wrapped as a listener")
		}
	})
}
