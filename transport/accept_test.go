package transport_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// acceptGate is a kernel in which accepting fails while err is set.
type acceptGate struct {
	kernel.Sockets
	err   *error
	calls *int
}

func (g acceptGate) Accept(fd int) (int, error) {
	*g.calls++
	if *g.err != nil {
		return -1, *g.err
	}
	return g.Sockets.Accept(fd)
}

func withAcceptGate(t *testing.T, name string) (o loop.Options, err *error, calls *int) {
	k, e := kernel.Open(name)
	if e != nil {
		t.Fatal(e)
	}
	err, calls = new(error), new(int)
	k.Sockets = acceptGate{k.Sockets, err, calls}
	return loop.Internal().WithKernel(loop.Options{}, k), err, calls
}

// TestAcceptOutOfDescriptors: the loop does not spin, OnError is called once for each
// period without descriptors, and accepting resumes by itself.
func TestAcceptOutOfDescriptors(t *testing.T) {
	for _, name := range short.Backends() {
		t.Run(name, func(t *testing.T) {
			o, fault, calls := withAcceptGate(t, name)
			var failures []error
			l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{
				OnError: func(err error) { failures = append(failures, err) },
			}, func() *spy {
				return &spy{data: func(c *transport.Conn, data []byte) { c.Write(data) }}
			})
			for period := 1; period <= short.Of(2); period++ {
				on(t, l, func() { *fault, *calls = syscall.EMFILE, 0 })
				c := dial(t, s)
				until.OnLoop(t, l, func() bool { return *calls > 3 })
				on(t, l, func() {
					if n := l.Stats().Turns; n > 2000 {
						t.Errorf("%d turns while accepting fails", n)
					}
					if len(failures) != period {
						t.Errorf("OnError called %d times in period %d", len(failures), period)
					}
					*fault = nil
				})
				c.Write([]byte("x"))
				if n, err := c.Read(make([]byte, 1)); n != 1 {
					t.Errorf("service has not resumed: %v", err)
				}
				c.Close()
				until.OnLoop(t, l, func() bool { return s.Conns() == 0 })
			}
			on(t, l, func() {
				var op *net.OpError
				if !errors.Is(failures[0], syscall.EMFILE) || !errors.As(failures[0], &op) || op.Op != "accept" {
					t.Errorf("OnError got %v", failures[0])
				}
			})
		})
	}
}

// TestAcceptCallbacksPanic: a server survives panics of its callbacks while accepting
// fails.
func TestAcceptCallbacksPanic(t *testing.T) {
	o, fault, calls := withAcceptGate(t, "")
	panics := 0
	o.OnPanic = func(p *loop.PanicError) error {
		panics++
		return nil
	}
	oops := true
	l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{
		OnError: func(err error) { panic(err) },
	}, func() *spy {
		return &spy{made: func(c *transport.Conn) {
			if oops {
				oops = false
				panic("the first connection after the failures")
			}
			c.Close()
		}}
	})
	on(t, l, func() { *fault = syscall.ENFILE })
	drainedBy := func(c net.Conn) { drainAll(c) }
	c := dial(t, s)
	until.OnLoop(t, l, func() bool { return *calls > 2 })
	on(t, l, func() {
		if panics != 1 {
			t.Errorf("OnError was called %d times in one period", panics)
		}
		*fault = nil
	})
	drainedBy(c)
	drainedBy(dial(t, s))
	on(t, l, func() {
		if panics != 2 {
			t.Errorf("%d panics", panics)
		}
	})
}

// TestCloseInOnError: a server that is closed by OnError does not accept again.
func TestCloseInOnError(t *testing.T) {
	o, fault, calls := withAcceptGate(t, "")
	*fault = syscall.ENOMEM
	closed := make(chan bool)
	var server *transport.Server // loop goroutine only
	l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{OnError: func(err error) {
		server.Close()
		close(closed)
	}}, func() *spy { return &spy{} })
	on(t, l, func() { server = s })
	if c, err := net.Dial("tcp", s.Addr().String()); err == nil { // may already be refused
		c.Close()
	}
	<-closed
	wantIdle(t, l)
	on(t, l, func() {
		if stats := l.Stats(); *calls != 1 || stats.Timers != 0 || stats.FDs != 0 {
			t.Errorf("%d accepts, %d timers and %d descriptors left", *calls, stats.Timers, stats.FDs)
		}
	})
}

// TestResetBeforeAccept: a connection that is reset in the backlog does no harm.
func TestResetBeforeAccept(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{
			OnError: func(err error) { t.Errorf("OnError got %v", err) },
		}, func() *spy {
			return &spy{data: func(c *transport.Conn, data []byte) { c.Write(data) }}
		})
		on(t, l, func() { // the loop does not accept meanwhile
			for range 10 {
				reset(t, dial(t, s))
				dial(t, s).Close()
			}
		})
		c := dial(t, s)
		c.Write([]byte("x"))
		if n, err := c.Read(make([]byte, 1)); n != 1 {
			t.Error(err)
		}
		c.Close()
		until.OnLoop(t, l, func() bool { return s.Conns() == 0 })
	})
}

// TestMaxConns: a connection beyond the limit waits until another one ends.
func TestMaxConns(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		made := make(chan *transport.Conn, 10)
		l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{MaxConns: 2}, func() *spy {
			return &spy{made: func(c *transport.Conn) { made <- c }}
		})
		var peers []net.Conn
		for range 4 {
			peers = append(peers, dial(t, s))
		}
		first, second := <-made, <-made
		wantIdle(t, l)
		if len(made) != 0 {
			t.Error("more than 2 connections at once")
		}
		on(t, l, first.Abort)
		third := <-made
		peers[1].Close()
		fourth := <-made
		on(t, l, func() {
			if s.Conns() != 2 {
				t.Errorf("%d connections", s.Conns())
			}
			second.Abort()
			third.Abort()
			fourth.Abort()
		})
	})
}

// TestOptionsProtocolPanics: if Options.Protocol panics or returns nil, only that
// connection is closed.
func TestOptionsProtocolPanics(t *testing.T) {
	var said []string
	n := 0
	var s *transport.Server
	l := running(t, loop.Options{OnPanic: func(p *loop.PanicError) error {
		text, _ := p.Value.(string)
		said = append(said, text)
		return nil
	}}, func(l *loop.Loop) {
		var err error
		s, err = transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{Protocol: func() transport.Protocol {
			switch n++; n {
			case 1:
				panic("not today")
			case 2:
				return nil
			}
			return &spy{tb: t, made: func(c *transport.Conn) { c.Close() }}
		}})
		if err != nil {
			t.Fatal(err)
		}
	})
	for range 3 {
		drainAll(dial(t, s)) // until EOF, so each descriptor is closed
	}
	on(t, l, func() {
		if len(said) != 2 || said[0] != "not today" || said[1] != "transport: Options.Protocol returned nil" {
			t.Errorf("panics: %q", said)
		}
	})
}

// TestCloseWhileTheLoopHoldsConnectionsBack: Close from another goroutine does not race with
// a loop that pauses its listener at MaxConns. The race detector checks it.
func TestCloseWhileTheLoopHoldsConnectionsBack(t *testing.T) {
	for range 20 {
		made := make(chan bool, 1)
		_, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{MaxConns: 1}, func() *spy {
			return &spy{made: func(*transport.Conn) { made <- true }}
		})
		c := dial(t, s)
		<-made // the listener is paused after that
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		c.Close()
	}
}

// TestDrain: the callbacks of all calls of Drain are called once, after the last
// connection has ended.
func TestDrain(t *testing.T) {
	made := make(chan *transport.Conn, 1)
	l, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
		return &spy{made: func(c *transport.Conn) { made <- c }}
	})
	c := dial(t, s)
	conn := <-made
	drained := 0
	on(t, l, func() {
		for range 2 {
			if err := s.Drain(func() { drained++ }); err != nil {
				t.Error(err)
			}
		}
	})
	if _, err := net.Dial("tcp", s.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialing a draining server: %v", err)
	}
	on(t, l, func() {
		if drained != 0 || s.Conns() != 1 {
			t.Errorf("Drain callbacks called %d times with %d connections", drained, s.Conns())
		}
		conn.Close()
	})
	drainAll(c)
	until.OnLoop(t, l, func() bool { return drained == 2 })
	on(t, l, func() { s.Drain(func() { drained++ }) })
	until.OnLoop(t, l, func() bool { return drained == 3 })
	for _, misuse := range []func(){
		func() { s.Drain(nil) },
		func() { transport.Listen(l, "tcp", ":0", transport.Options{}) },
	} {
		on(t, l, func() {
			defer func() {
				if recover() == nil {
					t.Error("Drain with a nil function did not panic")
				}
			}()
			misuse()
		})
	}
}

// TestRemoteAddrAfterReset: the address of a client that has already reset its
// connection is empty and not nil. Any client could otherwise make a log line panic.
func TestRemoteAddrAfterReset(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		var made, lost, info string
		s, err := transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{Protocol: func() transport.Protocol {
			return &script{
				made: func(c *transport.Conn) {
					made = c.RemoteAddr().String()
					info = c.Info().Remote.String()
				},
				lost: func(c *transport.Conn, _ error) {
					lost = c.RemoteAddr().String()
					l.Stop()
				},
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		client, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		client.(*net.TCPConn).SetLinger(0)
		client.Close()
		if err := l.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if made != ":0" || info != ":0" || lost != ":0" {
			t.Errorf("address %q when made, %q by Info, %q when lost", made, info, lost)
		}
	})
}
