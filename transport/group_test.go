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

// onEveryGroup runs a test on groups of n loops of each poller.
func onEveryGroup(t *testing.T, n int, test func(t *testing.T, g *loop.Group)) {
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

// start runs a group until the function it returns.
func start(t *testing.T, g *loop.Group) (stop func()) {
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

// census counts connections by loop. It is used by all of them.
type census struct {
	mu    sync.Mutex
	on    map[*loop.Loop]int
	made  chan *transport.Conn
	ended chan error
}

func newCensus() *census {
	return &census{on: map[*loop.Loop]int{}, made: make(chan *transport.Conn, 1000), ended: make(chan error, 1000)}
}

func (p *census) ConnectionMade(c *transport.Conn) {
	if !c.Loop().Owns() {
		p.ended <- errors.New("made on another loop")
	}
	p.mu.Lock()
	p.on[c.Loop()]++
	p.mu.Unlock()
	p.made <- c
}
func (p *census) DataReceived(c *transport.Conn, data []byte) { c.Write(data) }
func (p *census) ConnectionLost(c *transport.Conn, err error) {
	p.mu.Lock()
	p.on[c.Loop()]--
	p.mu.Unlock()
	p.ended <- err
}

func (p *census) counts(g *loop.Group) (n []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range g.Loops() {
		n = append(n, p.on[l])
	}
	return n
}

func (p *census) options(s transport.Spread) transport.GroupOptions {
	return transport.GroupOptions{
		Options: transport.Options{
			Protocol: func() transport.Protocol { return p },
			OnError:  func(err error) { p.ended <- err },
		},
		Spread: s,
	}
}

func listenGroup(t *testing.T, g *loop.Group, network, address string, o transport.GroupOptions) *transport.GroupServer {
	t.Helper()
	s, err := transport.ListenGroup(g, network, address, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// dialGroup connects to a server.
func dialGroup(t *testing.T, s *transport.GroupServer) net.Conn {
	t.Helper()
	c, err := net.Dial(s.Addr().Network(), s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func answered(t *testing.T, c net.Conn) {
	t.Helper()
	buf := make([]byte, 4)
	c.Write([]byte("ping"))
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "ping" {
		t.Errorf("%q, %v", buf, err)
	}
}

func TestGroupSpreadsConnections(t *testing.T) {
	for name, spread := range map[string]transport.Spread{
		"reuse port": transport.ReusePort, "round robin": transport.RoundRobin, "fewest": transport.FewestConns,
	} {
		for _, network := range []string{"tcp", "unix"} {
			t.Run(name+" "+network, func(t *testing.T) {
				onEveryGroup(t, 3, func(t *testing.T, g *loop.Group) {
					address := "127.0.0.1:0"
					if network == "unix" {
						address = filepath.Join(t.TempDir(), "s")
					}
					p := newCensus()
					s := listenGroup(t, g, network, address, p.options(spread))
					defer start(t, g)()
					const conns = 60
					for range conns {
						answered(t, dialGroup(t, s))
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
					s.AbortConns()
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

// TestFewestConnsFillsTheGap: the loop whose connections have gone gets the next.
func TestFewestConnsFillsTheGap(t *testing.T) {
	onEveryGroup(t, 2, func(t *testing.T, g *loop.Group) {
		p := newCensus()
		s := listenGroup(t, g, "tcp", "127.0.0.1:0", p.options(transport.FewestConns))
		defer start(t, g)()
		var second []net.Conn
		for i := range 8 {
			c := dialGroup(t, s)
			answered(t, c)
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
			answered(t, dialGroup(t, s))
		}
		if n := fmt.Sprint(p.counts(g)); n != "[4 4]" {
			t.Errorf("spread %v", n)
		}
	})
}

// TestGroupLimit: MaxConns is for each loop; the next waits until one has gone.
func TestGroupLimit(t *testing.T) {
	for _, spread := range []transport.Spread{transport.RoundRobin, transport.FewestConns, transport.ReusePort} {
		t.Run(fmt.Sprint(spread), func(t *testing.T) {
			loops := 2
			if spread == transport.ReusePort {
				loops = 1 // who gets which is not for us to say
			}
			onEveryGroup(t, loops, func(t *testing.T, g *loop.Group) {
				p := newCensus()
				o := p.options(spread)
				o.MaxConns = 2
				s := listenGroup(t, g, "tcp", "127.0.0.1:0", o)
				defer start(t, g)()
				var open []net.Conn
				for range 2 * loops {
					c := dialGroup(t, s)
					answered(t, c)
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

func TestGroupServerClosesFromAnyGoroutine(t *testing.T) {
	for _, spread := range []transport.Spread{transport.ReusePort, transport.RoundRobin} {
		onEveryGroup(t, 2, func(t *testing.T, g *loop.Group) {
			p := newCensus()
			s := listenGroup(t, g, "tcp", "127.0.0.1:0", p.options(spread))
			defer start(t, g)()
			c := dialGroup(t, s)
			answered(t, c)
			drained := make(chan struct{})
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { s.Close() })
			}
			all.Wait()
			s.Drain(func() { close(drained) })
			answered(t, c) // it stays
			select {
			case <-drained:
				t.Error("drained with a connection open")
			default:
			}
			s.CloseConns()
			<-drained
			if got, err := io.ReadAll(c); err != nil || len(got) > 0 {
				t.Errorf("%q, %v", got, err)
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
				turns(l)
			}
			for range len(p.ended) {
				if err := <-p.ended; err != nil {
					t.Errorf("told of %v", err)
				}
			}
		})
	}
}

// TestGroupServerOfAGroupThatDoesNotRun: it is closed at once, and the group is
// closed without anything left behind.
func TestGroupServerOfAGroupThatDoesNotRun(t *testing.T) {
	for _, spread := range []transport.Spread{transport.ReusePort, transport.RoundRobin} {
		onEveryGroup(t, 2, func(t *testing.T, g *loop.Group) {
			path := filepath.Join(t.TempDir(), "s")
			s := listenGroup(t, g, "unix", path, newCensus().options(spread))
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the path is left: %v", err)
			}
			s = listenGroup(t, g, "tcp", "127.0.0.1:0", newCensus().options(spread))
			stop := start(t, g)
			answered(t, dialGroup(t, s))
			stop()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if _, err := net.Dial("tcp", s.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("it still listens: %v", err)
			}
		})
	}
}

func TestListenGroupRefuses(t *testing.T) {
	onEveryGroup(t, 2, func(t *testing.T, g *loop.Group) {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		p := newCensus()
		for _, spread := range []transport.Spread{transport.ReusePort, transport.RoundRobin} {
			if _, err := transport.ListenGroup(g, "tcp", taken.Addr().String(), p.options(spread)); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("a taken port: %v", err)
			}
		}
		// Not even with another that spreads over its loops in the same way.
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
			t.Errorf("a port of another group: %v", err)
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
					t.Error("a running group is not refused")
				}
			}()
			transport.ListenGroup(g, "tcp", "127.0.0.1:0", p.options(0))
		})
		run(t, l)
	})
}
