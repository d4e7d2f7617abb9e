package transport_test

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

var errOops = errors.New("oops")

// TestConnectionLostExactlyOnce: ConnectionLost is called once with the right error,
// however the connection ends.
func TestConnectionLostExactlyOnce(t *testing.T) {
	oops := func(c *transport.Conn) { panic(errOops) }
	say := func(t *testing.T, c net.Conn) { c.Write([]byte("x")) }
	end := func(t *testing.T, c net.Conn) { c.Close() }
	panicked := func(err error) bool { return err != nil }
	clean := func(err error) bool { return err == nil }
	closes := func(c *transport.Conn) { c.Close() }
	for _, tc := range []struct {
		name string
		spy  spy
		peer func(t *testing.T, c net.Conn)
		want func(err error) bool
	}{
		{"closed when made", spy{made: closes}, nil, clean},
		{"closed twice", spy{made: func(c *transport.Conn) { c.Close(); c.Close(); c.Abort() }}, nil, clean},
		{"aborted when made", spy{made: (*transport.Conn).Abort}, nil, clean},
		{"closed by data", spy{data: func(c *transport.Conn, _ []byte) { c.Close() }}, say, clean},
		{"aborted by data", spy{data: func(c *transport.Conn, _ []byte) { c.Abort() }}, say, clean},
		{"ended by the peer", spy{}, end, clean},
		{"closed at the end", spy{eof: func(c *transport.Conn) bool { c.Close(); return true }}, end, clean},
		{"closed after the end", spy{eof: func(c *transport.Conn) bool {
			c.Loop().CallLater(1e6, func() { c.Close() })
			return true
		}}, end, clean},
		{"reset", spy{}, func(t *testing.T, c net.Conn) { reset(t, c) }, func(err error) bool {
			return errors.Is(err, syscall.ECONNRESET)
		}},
		{"reset after its end", spy{eof: func(c *transport.Conn) bool {
			c.Write([]byte("the end?"))
			var again func()
			again = func() { // the first may be too early
				if _, err := c.Write([]byte("x")); err == nil {
					c.Loop().CallLater(1e6, again)
				}
			}
			again()
			return true
		}}, func(t *testing.T, c net.Conn) {
			c.(*net.TCPConn).CloseWrite()
			c.Read(make([]byte, 1))
			reset(t, c)
		}, func(err error) bool {
			return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
		}},
		{"reset while written to", spy{data: func(c *transport.Conn, data []byte) {
			c.Write(make([]byte, 1<<20))
		}}, func(t *testing.T, c net.Conn) {
			say(t, c)
			c.Read(make([]byte, 1))
			reset(t, c)
		}, func(err error) bool { return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) }},
		{"panic when made", spy{made: oops}, nil, panicked},
		{"panic at data", spy{data: func(c *transport.Conn, _ []byte) { panic(errOops) }}, say, panicked},
		{"panic at the end", spy{eof: func(c *transport.Conn) bool { panic(errOops) }}, end, panicked},
		{"panic at a pause", spy{
			made:  func(c *transport.Conn) { c.Write(make([]byte, 16<<20)) },
			pause: oops,
		}, nil, panicked},
		{"panic at a resume", spy{
			made:   func(c *transport.Conn) { c.Write(make([]byte, 16<<20)) },
			resume: oops,
		}, func(t *testing.T, c net.Conn) { drainAll(c) }, panicked},
		{"panic after a flush", spy{made: func(c *transport.Conn) { c.AfterFlush(func(error) { panic(errOops) }) }}, nil, panicked},
		{"panic at a flush that fails", spy{made: func(c *transport.Conn) {
			c.Write(make([]byte, 16<<20))
			c.AfterFlush(func(error) { panic(errOops) })
			c.Abort()
		}}, nil, clean},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onPollers(t, func(t *testing.T, o loop.Options) {
				lost := make(chan error, 2)
				o.OnPanic = func(p *loop.PanicError) error {
					if p.Value != errOops {
						t.Error(p)
					}
					return nil
				}
				l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
					p := tc.spy
					p.lost = func(c *transport.Conn, err error) { lost <- err }
					return &p
				})
				c := dial(t, s)
				if tc.peer != nil {
					tc.peer(t, c)
				}
				if err := <-lost; !tc.want(err) {
					t.Errorf("lost with %v", err)
				}
				on(t, l, func() {})
				on(t, l, func() {
					if s.Conns() != 0 || len(lost) != 0 {
						t.Errorf("%d connections left, %d further calls of ConnectionLost", s.Conns(), len(lost))
					}
				})
			})
		})
	}
}

// TestResetAfterEOF: on a kernel with edges, a reset after EOF is noticed without a
// write.
func TestResetAfterEOF(t *testing.T) {
	ended, lost := make(chan bool), make(chan error, 1)
	_, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
		return &spy{
			eof: func(*transport.Conn) bool {
				close(ended)
				return true
			},
			lost: func(c *transport.Conn, err error) { lost <- err },
		}
	})
	c := dial(t, s)
	c.(*net.TCPConn).CloseWrite()
	<-ended
	reset(t, c)
	if err := <-lost; !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("lost with %v", err)
	}
}

// TestLoopClosed: ConnectionLost is called for connections that are open when the loop
// closes, or were lost in its last turn. Bytes written in the last turn are sent.
func TestLoopClosed(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		l, err := loop.New(o)
		if err != nil {
			t.Fatal(err)
		}
		var reasons []error
		var conns []*transport.Conn
		s, err := transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{Protocol: func() transport.Protocol {
			return &spy{
				tb: t,
				made: func(c *transport.Conn) {
					if conns = append(conns, c); len(conns) == 3 {
						conns[0].Abort()
						conns[1].Write([]byte("bye"))
						l.Stop()
					}
				},
				lost: func(c *transport.Conn, err error) {
					reasons = append(reasons, err)
					if len(reasons) == 2 { // also what the last words of one do to another
						conns[1].Abort()
						conns[2].Abort()
					}
				},
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		var peers []net.Conn
		for range 3 {
			peers = append(peers, dial(t, s))
		}
		if err := l.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		sockets := sock.RegistryOf(l)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if len(reasons) != 3 || reasons[0] != nil || !errors.Is(reasons[1], net.ErrClosed) {
			t.Errorf("lost with %v", reasons)
		}
		if sockets.Open() != 0 || s.Conns() != 0 {
			t.Errorf("%d sockets and %d connections left", sockets.Open(), s.Conns())
		}
		if got, err := readAll(peers[1]); got != "bye" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("closing the server of a closed loop: %v", err)
		}
	})
}

func readAll(c net.Conn) (string, error) {
	var got []byte
	buf := make([]byte, 100)
	for {
		n, err := c.Read(buf)
		got = append(got, buf[:n]...)
		if err != nil {
			return string(got), ignoreEOF(err)
		}
	}
}

// TestConnectionLostPanicsWhileLoopCloses: the other connections are closed too, and
// Close returns the panic.
func TestConnectionLostPanicsWhileLoopCloses(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	s, err := transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{Protocol: func() transport.Protocol {
		return &spy{tb: t, lost: func(c *transport.Conn, err error) {
			lost++
			panic(errOops)
		}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		dial(t, s)
	}
	for s.Conns() < 3 {
		if _, err := l.RunOnce(1e9); err != nil {
			t.Fatal(err)
		}
	}
	sockets := sock.RegistryOf(l)
	if err := l.Close(); !errors.Is(err, errOops) {
		t.Errorf("close: %v", err)
	}
	if lost != 3 || sockets.Open() != 0 || s.Conns() != 0 {
		t.Errorf("%d lost, %d sockets and %d connections left", lost, sockets.Open(), s.Conns())
	}
}

// TestLoopClosedWithQueuedCallbacks: a queued callback of a connection is not reported
// as lost work by Close, because ConnectionLost is called instead.
func TestLoopClosedWithQueuedCallbacks(t *testing.T) {
	conn, lost := make(chan *transport.Conn, 1), make(chan error, 1)
	l, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
		return &spy{
			made:  func(c *transport.Conn) { conn <- c },
			pause: func(c *transport.Conn) { t.Error("PauseWriting after the loop was stopped") },
			lost:  func(c *transport.Conn, err error) { lost <- err },
		}
	})
	dial(t, s)
	c := <-conn
	on(t, l, func() {
		c.Write(make([]byte, 16<<20))
		c.AfterFlush(func(error) {})
		c.PauseReading()
		c.ResumeReading()
		l.Stop()
	})
	t.Cleanup(func() { // before the loop is closed
		if len(lost) != 0 {
			t.Error("lost before the loop was closed")
		}
	})
}
