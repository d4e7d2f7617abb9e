package transport_test

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestDetachLosesNothing: bytes written before are sent, and unread data is read from
// the net.Conn.
func TestDetachLosesNothing(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		detached := make(chan net.Conn, 1)
		var s *transport.Server
		var err error
		s, err = transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{Protocol: func() transport.Protocol {
			return &script{
				made: func(c *transport.Conn) {
					c.PauseReading() // so that all data is unread
					c.Write([]byte("220 ready\n"))
					nc, err := c.Detach()
					if err != nil {
						t.Error(err)
					}
					detached <- nc
					if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
						t.Errorf("a write after Detach: %v", err)
					}
					if _, err := c.Detach(); !errors.Is(err, net.ErrClosed) {
						t.Errorf("a second Detach: %v", err)
					}
				},
				data: func(_ *transport.Conn, data []byte) { t.Errorf("received %q", data) },
				lost: stopWhenLost(t, l, nil),
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.Write([]byte("first"))
		run(t, l)
		if s.Conns() != 0 {
			t.Errorf("the server has %d connections", s.Conns())
		}
		s.Close()
		nc := <-detached
		defer nc.Close()
		if nc.RemoteAddr().String() != c.LocalAddr().String() {
			t.Errorf("the peer is %v", nc.RemoteAddr())
		}
		go func() {
			c.Write([]byte(" second"))
			c.(*net.TCPConn).CloseWrite()
		}()
		if got, err := io.ReadAll(nc); err != nil || string(got) != "first second" {
			t.Errorf("read %q, %v", got, err)
		}
		nc.Write([]byte("bye"))
		nc.Close()
		if got, err := io.ReadAll(c); err != nil || string(got) != "220 ready\nbye" {
			t.Errorf("the peer got %q, %v", got, err)
		}
	})
}

func TestDetachWithUnsentBytes(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		near, far := tcpPair(t)
		wrap(t, l, near, &script{
			made: func(c *transport.Conn) {
				for c.Unsent() == 0 {
					c.Write(big)
				}
				if _, err := c.Detach(); !errors.Is(err, transport.ErrUnsent) {
					t.Errorf("detached: %v", err)
				}
				go io.Copy(io.Discard, far)
				c.AfterFlush(func(error) {
					nc, err := c.Detach()
					if err != nil {
						t.Error(err)
						return
					}
					nc.Close()
				})
			},
			lost: stopWhenLost(t, l, nil),
		})
		near.Close()
		run(t, l)
	})
}

func TestDetachPipe(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		r, _ := pipe(t)
		wrap(t, l, r, &script{
			made: func(c *transport.Conn) {
				if _, err := c.Detach(); !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("detached: %v", err)
				}
				c.Close()
			},
			lost: stopWhenLost(t, l, nil),
		})
		run(t, l)
	})
}
