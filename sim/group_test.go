package sim_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/transport"
)

// TestAGroupServes: a server runs on several loops of one host, with connections that are
// handed over from loop to loop, and with faults.
func TestAGroupServes(t *testing.T) {
	for name, spread := range map[string]transport.Spread{"reuse port": transport.ReusePort, "round robin": transport.RoundRobin, "fewest": transport.FewestConns} {
		t.Run(name, func(t *testing.T) {
			sim.Explore(t, fewer(20), func(w *sim.World) {
				server := w.Host("server")
				used := map[*loop.Loop]bool{}
				server.Exec(func(o loop.Options) error {
					g, err := loop.NewGroup(3, o)
					if err != nil {
						return err
					}
					defer g.Close()
					gs, err := transport.ListenGroup(g, "tcp", ":7", transport.Options{
						Protocol: func() transport.Protocol { return groupEcho{used} },
						Spread:   spread,
					})
					if err != nil {
						return err
					}
					defer gs.Close()
					g.Loops()[1].CallLater(time.Minute, g.Stop)
					return g.Run(context.Background())
				})
				for i := range 6 {
					w.Host(fmt.Sprint("client", i)).Go(func(ctx context.Context) error {
						return insist(ctx, "server:7", "hello", strings.Repeat("x", 5000))
					})
				}
				w.Eventually("every loop has connections", 2*time.Minute, func() bool { return len(used) == 3 || spread == transport.ReusePort && len(used) > 1 })
				w.Faults = sim.Faults{For: 5 * time.Second, Lasting: time.Second, Loss: 0.02, Dribble: 0.1, Spurious: 0.05, PartitionEvery: 2 * time.Second, PauseEvery: 2 * time.Second}
			})
		})
	}
}

// groupEcho is an echo protocol that records the loops it runs on.
type groupEcho struct{ used map[*loop.Loop]bool }

func (e groupEcho) ConnectionMade(c *transport.Conn)            { e.used[c.Loop()] = true }
func (e groupEcho) DataReceived(c *transport.Conn, data []byte) { c.Write(data) }
func (e groupEcho) ConnectionLost(*transport.Conn, error)       {}

// group runs a program on a group of loops until the program stops it.
func group(o loop.Options, n int, program func(g *loop.Group)) error {
	g, err := loop.NewGroup(n, o)
	if err != nil {
		return err
	}
	defer g.Close()
	program(g)
	return g.Run(context.Background())
}

func TestTasksOnAGroup(t *testing.T) {
	w := sim.NewWorld(1)
	ended := 0
	w.Host("host").Exec(func(o loop.Options) error {
		return group(o, 0, func(g *loop.Group) {
			if len(g.Loops()) != 2 {
				t.Errorf("%d loops", len(g.Loops()))
			}
			for i := range 4 {
				g.Go(func(l *loop.Loop) {
					spindle.RunOn(context.Background(), l, func(ctx context.Context) error {
						return spindle.Sleep(ctx, time.Duration(i+1)*time.Hour)
					}, func(err error) {
						if ended++; err != nil || ended == 4 {
							g.Stop()
						}
					})
				})
			}
		})
	})
	if err := w.Run(); err != nil || ended != 4 || w.Now() != 4*time.Hour {
		t.Errorf("%v, %d tasks after %v", err, ended, w.Now())
	}
}

// TestAGroupEnds by a failing loop, a crash, a deadlock, and the end of the world, and after
// a second Run.
func TestAGroupEnds(t *testing.T) {
	broken := errors.New("broken")
	t.Run("with one that panics", func(t *testing.T) {
		w := sim.NewWorld(1)
		w.Host("host").Exec(func(o loop.Options) error {
			return group(o, 3, func(g *loop.Group) { g.Loops()[2].CallLater(time.Second, func() { panic(broken) }) })
		})
		var fault *loop.PanicError
		if err := w.Run(); !errors.As(err, &fault) || fault.Value != broken || w.Now() != time.Second {
			t.Errorf("%v after %v", err, w.Now())
		}
	})
	t.Run("by a crash", func(t *testing.T) {
		w := sim.NewWorld(1)
		starts := 0
		host := w.Host("host")
		host.Exec(func(o loop.Options) error {
			starts++
			return group(o, 3, func(g *loop.Group) { g.Loops()[1].CallLater(time.Minute, g.Stop) })
		})
		w.After(time.Second, host.Restart)
		if err := w.Run(); err != nil || starts != 2 || w.Now() != time.Minute+time.Second {
			t.Errorf("%v, %d starts, after %v", err, starts, w.Now())
		}
	})
	t.Run("by a deadlock", func(t *testing.T) {
		w := sim.NewWorld(1)
		w.Host("host").Exec(func(o loop.Options) error { return group(o, 3, func(*loop.Group) {}) })
		if err := w.Run(); !errors.Is(err, sim.ErrDeadlock) {
			t.Error(err)
		}
	})
	t.Run("with the world", func(t *testing.T) {
		w := sim.NewWorld(1)
		w.Host("host").Exec(func(o loop.Options) error {
			return group(o, 3, func(g *loop.Group) { g.Loops()[1].CallLater(time.Hour, g.Stop) })
		})
		if err := w.RunFor(time.Minute); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("and runs again", func(t *testing.T) {
		w := sim.NewWorld(1)
		w.Host("host").Exec(func(o loop.Options) error {
			g, err := loop.NewGroup(3, o)
			if err != nil {
				return err
			}
			defer g.Close()
			for range 3 {
				g.Loops()[2].CallLater(time.Second, g.Stop)
				if err := g.Run(context.Background()); err != nil {
					return err
				}
			}
			return nil
		})
		if err := w.Run(); err != nil || w.Now() != 3*time.Second {
			t.Errorf("%v after %v", err, w.Now())
		}
	})
}

// TestAGroupWithoutAWorld: a group runs on a process that drives its world itself.
func TestAGroupWithoutAWorld(t *testing.T) {
	var from []int
	err := group(loop.Internal().WithKernel(loop.Options{Watchdog: -1}, simkernel.NewKernel()), 3, func(g *loop.Group) {
		loops := g.Loops()
		loops[0].CallLater(time.Second, func() {
			from = append(from, 0)
			loops[1].Post(func() {
				from = append(from, 1)
				loops[2].Post(func() {
					from = append(from, 2)
					loops[0].Post(func() { g.Stop() })
				})
			})
		})
	})
	if err != nil || fmt.Sprint(from) != "[0 1 2]" {
		t.Error(err, from)
	}
}
