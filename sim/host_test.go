package sim_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/transport"
)

func run(t *testing.T, w *sim.World) {
	t.Helper()
	if err := w.Run(); err != nil {
		t.Fatalf("%v\n%v", err, w.Trace())
	}
}

// TestACrashResetsConnections: deferred calls run but cannot reach the world, and a restart
// starts the program from the beginning.
func TestACrashResetsConnections(t *testing.T) {
	w := sim.NewWorld(1)
	server, client := w.Host("server"), w.Host("client")
	begins, ends := 0, 0
	server.Serve(func(ctx context.Context) error {
		begins++
		defer func() {
			ends++
			if begins == 1 { // after the crash the world is out of reach
				if _, err := transport.Listen(spindle.LoopOf(ctx), "tcp", ":8", transport.Options{Protocol: func() transport.Protocol { return echo{} }}); !errors.Is(err, syscall.ENETDOWN) {
					t.Errorf("after a crash: %v", err)
				}
			}
		}()
		return serveEcho(":7")(ctx)
	})
	var lost error
	client.Go(func(ctx context.Context) error {
		lost = ask(ctx, "server:7", strings.Repeat("x", 10<<20)) // takes long
		if err := ask(ctx, "server:7", "down?"); !errors.Is(err, syscall.ECONNREFUSED) && err != nil {
			return err
		}
		return insist(ctx, "server:7", "hello")
	})
	w.After(20*time.Millisecond, server.Crash)
	w.After(30*time.Second, server.Restart)
	run(t, w)
	if !errors.Is(lost, syscall.ECONNRESET) || begins != 2 || ends != 2 {
		t.Errorf("lost by %v, begun %d times, ended %d times", lost, begins, ends)
	}
}

// TestRunWaitsForACrashedProgram as long as anything can still happen.
func TestRunWaitsForACrashedProgram(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := sim.NewWorld(1)
		h := w.Host("h")
		done := 0
		h.Go(func(ctx context.Context) error {
			err := spindle.Sleep(ctx, time.Minute)
			if err == nil {
				done++
			}
			return err
		})
		w.After(time.Second, h.Crash)
		if restart {
			w.After(time.Hour, h.Restart)
		}
		run(t, w)
		if restart != (done == 1) || restart && w.Now() != time.Hour+time.Minute {
			t.Errorf("restart %v: done %d times at %v", restart, done, w.Now())
		}
	}
}

// TestFaultsAfterTheEndOfARun: while programs clean up, a host boots, is paused, or is
// added. Nothing of that starts or delays a program.
func TestFaultsAfterTheEndOfARun(t *testing.T) {
	for name, fault := range map[string]func(w *sim.World, h *sim.Host, begun *int){
		"restart": func(w *sim.World, h *sim.Host, _ *int) {
			w.After(time.Second, h.Crash)
			w.After(3*time.Second, h.Restart)
		},
		"restart of a host that is up": func(w *sim.World, h *sim.Host, _ *int) { w.After(3*time.Second, h.Restart) },
		"pause":                        func(w *sim.World, h *sim.Host, _ *int) { w.After(3*time.Second, h.Pause) },
		"another program": func(w *sim.World, h *sim.Host, begun *int) {
			w.After(3*time.Second, func() {
				h.Go(func(ctx context.Context) error {
					*begun++
					return spindle.Sleep(ctx, time.Hour)
				})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := sim.NewWorld(1)
			h, main := w.Host("h"), w.Host("main")
			begun := 0
			h.Serve(func(ctx context.Context) error {
				begun++
				if err := spindle.Sleep(ctx, time.Hour); err == nil {
					return nil
				}
				return spindle.Grace(ctx, time.Minute, func(ctx context.Context) error { return spindle.Sleep(ctx, 5*time.Second) })
			})
			main.Serve(func(ctx context.Context) error {
				_ = spindle.Sleep(ctx, time.Hour)
				return spindle.Grace(ctx, time.Minute, func(ctx context.Context) error { return spindle.Sleep(ctx, 5*time.Second) })
			})
			main.Go(func(ctx context.Context) error { return spindle.Sleep(ctx, 2*time.Second) })
			fault(w, h, &begun)
			run(t, w)
			if begun != 1 || w.Now() != 7*time.Second {
				t.Errorf("%d programs have begun, and the world ends at %v", begun, w.Now())
			}
		})
	}
}

// TestAPausedHostMissesNothing: data that arrives meanwhile is read after the pause.
func TestAPausedHostMissesNothing(t *testing.T) {
	w := sim.NewWorld(1)
	server, client := w.Host("server"), w.Host("client")
	server.Serve(serveEcho(":7"))
	var took time.Duration
	client.Go(func(ctx context.Context) error {
		began := spindle.Now(ctx)
		err := ask(ctx, "server:7", "hello", "again")
		took = spindle.Now(ctx).Sub(began)
		return err
	})
	w.After(time.Millisecond, server.Pause)
	w.After(time.Minute, server.Resume)
	run(t, w)
	if took < 59*time.Second || took > time.Minute+time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestClocksOfHostsDiffer(t *testing.T) {
	w := sim.NewWorld(1)
	fast, slow := w.Host("fast"), w.Host("slow")
	fast.SetClock(0, 100000)
	slow.SetClock(0, -100000)
	var order []string
	for _, h := range []*sim.Host{slow, fast} {
		h.Go(func(ctx context.Context) error {
			err := spindle.Sleep(ctx, time.Hour)
			order = append(order, fmt.Sprint(h.Name(), " ", w.Now().Round(time.Second)))
			return err
		})
	}
	run(t, w)
	if want := []string{"fast 54m33s", "slow 1h6m40s"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
}

// TestOutOfDescriptors: a server pauses, reports the error once, and continues.
func TestOutOfDescriptors(t *testing.T) {
	w := sim.NewWorld(1)
	server, client := w.Host("server"), w.Host("client")
	var reported []error
	server.Serve(func(ctx context.Context) error {
		s, err := transport.Listen(spindle.LoopOf(ctx), "tcp", ":7", transport.Options{
			Protocol: func() transport.Protocol { return echo{} },
			OnError:  func(err error) { reported = append(reported, err) },
		})
		if err != nil {
			return err
		}
		defer s.Close()
		return spindle.Sleep(ctx, time.Hour)
	})
	for n := 1; n <= 3; n++ {
		server.FailCall("accept", 1, syscall.EMFILE)
	}
	client.Go(func(ctx context.Context) error { return ask(ctx, "server:7", "hello") })
	run(t, w)
	if len(reported) != 1 || !errors.Is(reported[0], syscall.EMFILE) || w.Now() < 50*time.Millisecond {
		t.Errorf("reported %v, ended after %v", reported, w.Now())
	}
}

// TestADeadAddressIsSkipped: a name has two addresses, and one does not answer.
func TestADeadAddressIsSkipped(t *testing.T) {
	w := sim.NewWorld(1)
	server, client := w.Host("server", "fd00::1", "10.0.0.1"), w.Host("client", "fd00::2", "10.0.0.2")
	server.Serve(serveEcho("10.0.0.1:7"))
	client.Go(func(ctx context.Context) error {
		if err := ask(ctx, "server:7", "hello"); err != nil { // refused by the first
			return err
		}
		if w.Now() > 50*time.Millisecond {
			t.Errorf("a refusal was waited for: %v", w.Now())
		}
		return nil
	})
	run(t, w)
}

func TestUnixSocketsBelongToAHost(t *testing.T) {
	w := sim.NewWorld(1)
	a, b := w.Host("a"), w.Host("b")
	a.Serve(func(ctx context.Context) error {
		s, err := transport.Listen(spindle.LoopOf(ctx), "unix", "/run/echo", transport.Options{Protocol: func() transport.Protocol { return echo{} }})
		if err != nil {
			return err
		}
		defer s.Close()
		return spindle.Sleep(ctx, time.Hour)
	})
	dial := func(ctx context.Context) error {
		if err := spindle.Sleep(ctx, time.Second); err != nil {
			return err
		}
		answer := spindle.NewFuture[int](ctx)
		done := func(err error) {
			if err != nil {
				answer.Reject(err)
			}
			answer.Resolve(0)
		}
		transport.Connect(context.Background(), spindle.LoopOf(ctx), "unix", "/run/echo", transport.ConnectOptions{Protocol: &asker{messages: []string{"hello"}, done: done}, OnError: done})
		_, err := answer.Await(ctx)
		return err
	}
	a.Go(dial)
	b.Go(func(ctx context.Context) error {
		if err := dial(ctx); !errors.Is(err, syscall.ENOENT) {
			t.Errorf("on another host: %v", err)
		}
		return nil
	})
	run(t, w)
}

// TestWaitAllBlockedWaitsForEveryHost, and for timers that are due on them now.
func TestWaitAllBlockedWaitsForEveryHost(t *testing.T) {
	for seed := range uint64(20) {
		w := sim.NewWorld(seed)
		yields := 0
		w.Host("a").Go(func(ctx context.Context) error {
			if err := sim.WaitAllBlocked(ctx); err != nil || yields != 500 || w.Now() != 0 {
				t.Errorf("%v after %d yields, at %v", err, yields, w.Now())
			}
			return nil
		})
		w.Host("b").Go(func(ctx context.Context) error {
			for range 500 {
				yields++
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			return spindle.Sleep(ctx, time.Second)
		})
		run(t, w)
	}
}

func TestPipesAndPairsOfTasks(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		r, w, err := sim.Pipe(ctx)
		if err != nil {
			return err
		}
		a, b, err := sim.SocketPair(ctx)
		if err != nil {
			return err
		}
		k := spindle.LoopOf(ctx).Internal().Kernel()
		for _, ends := range [][2]int{{w, r}, {a, b}, {b, a}} {
			err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(func(ctx context.Context) error {
					if err := spindle.WaitReadable(ctx, ends[1]); err != nil {
						return err
					}
					buf := make([]byte, 8)
					if n, err := k.Read(ends[1], buf); err != nil || string(buf[:n]) != "hello" {
						t.Errorf("read %q, %v", buf[:n], err)
					}
					return nil
				})
				if err := sim.WaitAllBlocked(ctx); err != nil {
					return err
				}
				_, err := k.Write(ends[0], []byte("hello"))
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func TestMistakesInAWorldAreNamed(t *testing.T) {
	w := sim.NewWorld(1)
	a := w.Host("a", "10.1.1.1")
	mustPanic(t, `"a"`, func() { w.Host("a") })
	mustPanic(t, "10.1.1.1", func() { w.Host("b", "10.1.1.1") })
	mustPanic(t, "nonsense", func() { w.Host("c", "nonsense") })
	mustPanic(t, "127.0.0.1", func() { w.Host("d", "127.0.0.1") })
	mustPanic(t, `"acept"`, func() { a.FailCall("acept", 1, syscall.EMFILE) })
	mustPanic(t, "the number 0", func() { a.FailCall("accept", 0, syscall.EMFILE) })
	func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		mustPanic(t, "locked thread", func() { w.Run() })
	}()
	w.Host("e").Go(func(ctx context.Context) error {
		mustPanic(t, "run by one of its own programs", func() { w.Run() })
		return nil
	})
	run(t, w)
}
