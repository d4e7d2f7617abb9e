package transport_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// withGroups runs a test with a group of n loops on each poller.
func withGroups(t *testing.T, n int, test func(t *testing.T, g *loop.Group)) {
	for _, backend := range []string{"auto", "poll"} {
		t.Run(backend, func(t *testing.T) {
			g, err := loop.NewGroup(n, loop.Options{Backend: backend})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := g.Close(); err != nil && !errors.Is(err, loop.ErrClosed) {
					t.Error(err)
				}
			}()
			test(t, g)
		})
	}
}

// startGroup runs a group until stop is called.
func startGroup(t *testing.T, g *loop.Group) (stop func()) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- g.Run(t.Context()) }()
	return func() {
		t.Helper()
		g.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// connCounter counts connections by loop. All loops share it.
type connCounter struct {
	mu    sync.Mutex
	on    map[*loop.Loop]int
	made  chan *transport.Conn
	ended chan error
}

func newConnCounter() *connCounter {
	return &connCounter{on: map[*loop.Loop]int{}, made: make(chan *transport.Conn, 1000), ended: make(chan error, 1000)}
}

func (p *connCounter) ConnectionMade(c *transport.Conn) {
	if !c.Loop().Owns() {
		p.ended <- errors.New("made on another loop")
	}
	p.mu.Lock()
	p.on[c.Loop()]++
	p.mu.Unlock()
	p.made <- c
}
func (p *connCounter) DataReceived(c *transport.Conn, data []byte) { c.Write(data) }
func (p *connCounter) ConnectionLost(c *transport.Conn, err error) {
	p.mu.Lock()
	p.on[c.Loop()]--
	p.mu.Unlock()
	p.ended <- err
}

func (p *connCounter) counts(g *loop.Group) (n []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range g.Loops() {
		n = append(n, p.on[l])
	}
	return n
}

func (p *connCounter) options(s transport.Spread) transport.Options {
	return transport.Options{
		Protocol: func() transport.Protocol { return p },
		OnError:  func(err error) { p.ended <- err },
		Spread:   s,
	}
}

func listenGroup(t *testing.T, g *loop.Group, network, address string, o transport.Options) *transport.Server {
	t.Helper()
	s, err := transport.ListenGroup(g, network, address, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// dialGroup connects to a server.
func dialGroup(t *testing.T, s *transport.Server) net.Conn {
	t.Helper()
	c, err := net.Dial(s.Addr().Network(), s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func wantEcho(t *testing.T, c net.Conn) {
	t.Helper()
	buf := make([]byte, 4)
	c.Write([]byte("ping"))
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "ping" {
		t.Errorf("got %q, %v", buf, err)
	}
}

func TestGroupSpread(t *testing.T) {
	for name, spread := range map[string]transport.Spread{
		"reuse port": transport.ReusePort, "round robin": transport.RoundRobin, "fewest": transport.FewestConns,
	} {
		for _, network := range []string{"tcp", "unix"} {
			t.Run(name+" "+network, func(t *testing.T) {
				withGroups(t, 3, func(t *testing.T, g *loop.Group) {
					address := "127.0.0.1:0"
					if network == "unix" {
						address = filepath.Join(t.TempDir(), "s")
					}
					p := newConnCounter()
					s := listenGroup(t, g, network, address, p.options(spread))
					defer startGroup(t, g)()
					const conns = 60
					for range conns {
						wantEcho(t, dialGroup(t, s))
					}
					n := p.counts(g)
					if n[0]+n[1]+n[2] != conns || s.Conns() != conns {
						t.Errorf("%v connections, %d in all", n, s.Conns())
					}
					if spread == transport.ReusePort && network == "tcp" {
						if n[0] == conns || n[1] == conns || n[2] == conns {
							t.Errorf("one loop has all: %v", n)
						}
					} else if n[0] != conns/3 || n[1] != conns/3 {
						t.Errorf("spread %v", n)
					}
					s.Close()
					s.EachConn((*transport.Conn).Abort)
					for range conns {
						if err := <-p.ended; err != nil {
							t.Error(err)
						}
					}
				})
			})
		}
	}
}

// TestFewestConns: the loop with the fewest connections gets the next one.
func TestFewestConns(t *testing.T) {
	withGroups(t, 2, func(t *testing.T, g *loop.Group) {
		p := newConnCounter()
		s := listenGroup(t, g, "tcp", "127.0.0.1:0", p.options(transport.FewestConns))
		defer startGroup(t, g)()
		var second []net.Conn
		for i := range 8 {
			c := dialGroup(t, s)
			wantEcho(t, c)
			if i%2 == 1 {
				second = append(second, c)
			}
		}
		for _, c := range second {
			c.Close()
			<-p.ended
		}
		if n := fmt.Sprint(p.counts(g)); n != "[0 4]" && n != "[4 0]" {
			t.Fatalf("spread %v", n)
		}
		for range 4 {
			wantEcho(t, dialGroup(t, s))
		}
		if n := fmt.Sprint(p.counts(g)); n != "[4 4]" {
			t.Errorf("spread %v", n)
		}
	})
}

// TestGroupMaxConns: MaxConns is the limit of each loop; further connections wait until
// one has ended.
func TestGroupMaxConns(t *testing.T) {
	for _, spread := range []transport.Spread{transport.RoundRobin, transport.FewestConns, transport.ReusePort} {
		t.Run(fmt.Sprint(spread), func(t *testing.T) {
			loops := 2
			if spread == transport.ReusePort {
				loops = 1 // the system chooses the loop
			}
			withGroups(t, loops, func(t *testing.T, g *loop.Group) {
				p := newConnCounter()
				o := p.options(spread)
				o.MaxConns = 2
				s := listenGroup(t, g, "tcp", "127.0.0.1:0", o)
				defer startGroup(t, g)()
				var open []net.Conn
				for range 2 * loops {
					c := dialGroup(t, s)
					wantEcho(t, c)
					open = append(open, c)
				}
				for i := range open { // each waits for the one before it to go
					next := dialGroup(t, s)
					next.Write([]byte("ping"))
					if s.Conns() != 2*loops {
						t.Errorf("%d connections", s.Conns())
					}
					open[i].Close()
					buf := make([]byte, 4)
					if _, err := io.ReadFull(next, buf); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

func TestGroupCloseFromAnyGoroutine(t *testing.T) {
	for _, spread := range []transport.Spread{transport.ReusePort, transport.RoundRobin} {
		withGroups(t, 2, func(t *testing.T, g *loop.Group) {
			p := newConnCounter()
			s := listenGroup(t, g, "tcp", "127.0.0.1:0", p.options(spread))
			defer startGroup(t, g)()
			c := dialGroup(t, s)
			wantEcho(t, c)
			drained := make(chan struct{})
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { s.Close() })
			}
			all.Wait()
			s.Drain(func() { close(drained) })
			wantEcho(t, c) // open connections stay
			select {
			case <-drained:
				t.Error("drained with an open connection")
			default:
			}
			s.EachConn(func(c *transport.Conn) { c.Close() })
			<-drained
			if got, err := io.ReadAll(c); err != nil || len(got) > 0 {
				t.Errorf("got %q, %v", got, err)
			}
			if c, err := net.Dial("tcp", s.Addr().String()); err == nil {
				if got, _ := io.ReadAll(c); len(got) > 0 { // a listener may be about to close
					t.Errorf("a closed server answers %q", got)
				}
				c.Close()
			}
			again := make(chan struct{})
			s.Drain(func() { close(again) })
			<-again
			for _, l := range g.Loops() { // each has had a turn since
				waitTurn(l)
			}
			for range len(p.ended) {
				if err := <-p.ended; err != nil {
					t.Errorf("lost with %v", err)
				}
			}
		})
	}
}

// TestServerFromAnyGoroutine: so are the methods of a server on one loop.
func TestServerFromAnyGoroutine(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := newConnCounter()
	s, err := transport.Listen(l, "tcp", "127.0.0.1:0", p.options(0))
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- l.Run(t.Context()) }()
	c := dialGroup(t, s)
	wantEcho(t, c)
	onLoop := make(chan bool, 1)
	s.EachConn(func(c *transport.Conn) { onLoop <- c.Loop() == l && l.Owns() })
	if !<-onLoop || s.Conns() != 1 {
		t.Errorf("EachConn called elsewhere than on the loop, or %d connections", s.Conns())
	}
	drained := make(chan struct{})
	s.Drain(func() { close(drained) })
	wantEcho(t, c) // open connections stay
	s.EachConn((*transport.Conn).Abort)
	<-drained
	if s.Conns() != 0 || s.Close() != nil {
		t.Errorf("%d connections are left", s.Conns())
	}
	l.Stop()
	if err := errors.Join(<-ran, l.Close()); err != nil {
		t.Error(err)
	}
}

// TestGroupCloseBeforeRun: Close takes effect on a group that does not run, and closing
// the group leaves nothing open.
func TestGroupCloseBeforeRun(t *testing.T) {
	for _, spread := range []transport.Spread{transport.ReusePort, transport.RoundRobin} {
		withGroups(t, 2, func(t *testing.T, g *loop.Group) {
			path := filepath.Join(t.TempDir(), "s")
			s := listenGroup(t, g, "unix", path, newConnCounter().options(spread))
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the path was not removed: %v", err)
			}
			s = listenGroup(t, g, "tcp", "127.0.0.1:0", newConnCounter().options(spread))
			stop := startGroup(t, g)
			wantEcho(t, dialGroup(t, s))
			stop()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if _, err := net.Dial("tcp", s.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("the server still listens: %v", err)
			}
		})
	}
}

func TestListenGroupErrors(t *testing.T) {
	withGroups(t, 2, func(t *testing.T, g *loop.Group) {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		p := newConnCounter()
		for _, spread := range []transport.Spread{transport.ReusePort, transport.RoundRobin} {
			if _, err := transport.ListenGroup(g, "tcp", taken.Addr().String(), p.options(spread)); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("a port in use: %v", err)
			}
		}
		// Not even another group with the same Spread may share the port.
		other, err := loop.NewGroup(2, loop.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		first, err := transport.ListenGroup(other, "tcp", "127.0.0.1:0", p.options(transport.ReusePort))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := transport.ListenGroup(g, "tcp", first.Addr().String(), p.options(transport.ReusePort)); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("the port of another group: %v", err)
		}
		first.Close()
		var unknown net.UnknownNetworkError
		if _, err := transport.ListenGroup(g, "udp", "127.0.0.1:0", p.options(0)); !errors.As(err, &unknown) {
			t.Errorf("udp: %v", err)
		}
		l := g.Loops()[0]
		l.CallSoon(func() {
			defer l.Stop()
			defer func() {
				if recover() == nil {
					t.Error("ListenGroup on a running group did not panic")
				}
			}()
			transport.ListenGroup(g, "tcp", "127.0.0.1:0", p.options(0))
		})
		run(t, l)
	})
}
