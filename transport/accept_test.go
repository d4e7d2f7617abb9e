package transport_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// gate is a system in which accepting fails for as long as err is set.
type gate struct {
	kernel.Sockets
	err   *error
	calls *int
}

func (g gate) Accept(fd int) (int, error) {
	*g.calls++
	if *g.err != nil {
		return -1, *g.err
	}
	return g.Sockets.Accept(fd)
}

func gated(t *testing.T, name string) (o loop.Options, err *error, calls *int) {
	k, e := kernel.Open(name)
	if e != nil {
		t.Fatal(e)
	}
	err, calls = new(error), new(int)
	k.Sockets = gate{k.Sockets, err, calls}
	return loop.Options{Kernel: k}, err, calls
}

// TestNoDescriptorsToAccept: the loop does not spin, OnError hears of each spell
// once, and service resumes by itself.
func TestNoDescriptorsToAccept(t *testing.T) {
	for _, name := range kernel.Backends() {
		t.Run(name, func(t *testing.T) {
			o, fault, calls := gated(t, name)
			var told []error
			l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{
				OnError: func(err error) { told = append(told, err) },
			}, func() *spy {
				return &spy{data: func(c *transport.Conn, data []byte) { c.Write(data) }}
			})
			for spell := 1; spell <= 2; spell++ {
				on(t, l, func() { *fault, *calls = syscall.EMFILE, 0 })
				c := dial(t, s)
				until(t, l, func() bool { return *calls > 3 })
				on(t, l, func() {
					if n := l.Stats().Turns; n > 2000 {
						t.Errorf("%d turns", n)
					}
					if len(told) != spell {
						t.Errorf("told %d times in spell %d", len(told), spell)
					}
					*fault = nil
				})
				c.Write([]byte("x"))
				if n, err := c.Read(make([]byte, 1)); n != 1 {
					t.Errorf("service has not resumed: %v", err)
				}
				c.Close()
				until(t, l, func() bool { return s.Conns() == 0 })
			}
			on(t, l, func() {
				var op *net.OpError
				if !errors.Is(told[0], syscall.EMFILE) || !errors.As(told[0], &op) || op.Op != "accept" {
					t.Errorf("told of %v", told[0])
				}
			})
		})
	}
}

// TestAcceptFailuresInEveryCallback: a server survives what its callbacks do in the
// middle of a spell.
func TestAcceptFailuresInEveryCallback(t *testing.T) {
	o, fault, calls := gated(t, "")
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
				panic("the first after a spell")
			}
			c.Close()
		}}
	})
	on(t, l, func() { *fault = syscall.ENFILE })
	drainedBy := func(c net.Conn) { drainAll(c) }
	c := dial(t, s)
	until(t, l, func() bool { return *calls > 2 })
	on(t, l, func() {
		if panics != 1 {
			t.Errorf("OnError panicked %d times in one spell", panics)
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

// TestCloseInOnError: who gives up at the first trouble is not asked again.
func TestCloseInOnError(t *testing.T) {
	o, fault, calls := gated(t, "")
	*fault = syscall.ENOMEM
	closed := make(chan bool)
	var server *transport.Server // the loop's
	l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{OnError: func(err error) {
		server.Close()
		close(closed)
	}}, func() *spy { return &spy{} })
	on(t, l, func() { server = s })
	if c, err := net.Dial("tcp", s.Addr().String()); err == nil { // it may be refused already
		c.Close()
	}
	<-closed
	quiet(t, l)
	on(t, l, func() {
		if stats := l.Stats(); *calls != 1 || stats.Timers != 0 || stats.FDs != 0 {
			t.Errorf("%d accepts, %d timers and %d descriptors left", *calls, stats.Timers, stats.FDs)
		}
	})
}

// TestGoneBeforeTheAccept: a connection that was reset in the backlog harms nobody.
func TestGoneBeforeTheAccept(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
		l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{
			OnError: func(err error) { t.Errorf("told of %v", err) },
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
		until(t, l, func() bool { return s.Conns() == 0 })
	})
}

// TestLimitOfConnections: one more waits until one is gone.
func TestLimitOfConnections(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
		made := make(chan *transport.Conn, 10)
		l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{MaxConns: 2}, func() *spy {
			return &spy{made: func(c *transport.Conn) { made <- c }}
		})
		var peers []net.Conn
		for range 4 {
			peers = append(peers, dial(t, s))
		}
		first, second := <-made, <-made
		quiet(t, l)
		if len(made) != 0 {
			t.Error("more than 2 at once")
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

// TestProtocolThatCannotBeMade: a panic, or nil, costs that connection and nothing
// else.
func TestProtocolThatCannotBeMade(t *testing.T) {
	var said []string
	n := 0
	var s *transport.Server
	l := steady(t, loop.Options{OnPanic: func(p *loop.PanicError) error {
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
		drainAll(dial(t, s)) // to the end: each descriptor is closed
	}
	on(t, l, func() {
		if len(said) != 2 || said[0] != "not today" || said[1] != "transport: Options.Protocol returned nil" {
			t.Errorf("%q", said)
		}
	})
}

// TestDrain: all who wait for the last connection are told, once.
func TestDrain(t *testing.T) {
	made := make(chan *transport.Conn, 1)
	l, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
		return &spy{made: func(c *transport.Conn) { made <- c }}
	})
	c := dial(t, s)
	conn := <-made
	told := 0
	on(t, l, func() {
		for range 2 {
			if err := s.Drain(func() { told++ }); err != nil {
				t.Error(err)
			}
		}
	})
	if _, err := net.Dial("tcp", s.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a draining server: %v", err)
	}
	on(t, l, func() {
		if told != 0 || s.Conns() != 1 {
			t.Errorf("told %d times with %d connections", told, s.Conns())
		}
		conn.Close()
	})
	drainAll(c)
	until(t, l, func() bool { return told == 2 })
	on(t, l, func() { s.Drain(func() { told++ }) })
	until(t, l, func() bool { return told == 3 })
	for _, misuse := range []func(){
		func() { s.Drain(nil) },
		func() { transport.Listen(l, "tcp", ":0", transport.Options{}) },
	} {
		on(t, l, func() {
			defer func() {
				if recover() == nil {
					t.Error("misuse is not named")
				}
			}()
			misuse()
		})
	}
}

// TestResetBeforeItIsMade: whoever asks where such a client is, as a log does, gets an
// address that names nothing. None at all would be a panic that anybody could cause.
func TestResetBeforeItIsMade(t *testing.T) {
	onEveryBackend(t, func(t *testing.T, l *loop.Loop) {
		var made, lost, told string
		s, err := transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{Protocol: func() transport.Protocol {
			return &script{
				made: func(c *transport.Conn) {
					made = c.RemoteAddr().String()
					told = c.Info().Remote.String()
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
		if made != ":0" || told != ":0" || lost != ":0" {
			t.Errorf("at %q when made, %q by Info, %q when lost", made, told, lost)
		}
	})
}
