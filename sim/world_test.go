package sim_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

// Two hosts, a message and its answer, and the trace.
func ExampleWorld() {
	w := sim.NewWorld(1)
	server, client := w.Host("server"), w.Host("client")
	w.Link(server, client).Set(sim.LinkOptions{Latency: sim.Fixed(time.Millisecond)})
	server.Serve(serveEcho(":7"))
	client.Go(func(ctx context.Context) error { return ask(ctx, "server:7", "hello") })
	fmt.Println(w.Run())
	fmt.Print(w.Trace())
	// Output:
	// <nil>
	//           0s  client connects to server:7
	//          2ms  client is connected to server:7 #1
	//          3ms  client sends to server 5 bytes #1 "hello"
	//          4ms  server sends to client 5 bytes #1 "hello"
}

func TestAnHourOfTimeoutsTakesNoTime(t *testing.T) {
	w := sim.NewWorld(1)
	for i := range 10 {
		w.Host(fmt.Sprint("host", i)).Go(func(ctx context.Context) error {
			for range 3600 {
				if err := spindle.Sleep(ctx, time.Second); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := w.Run(); err != nil || w.Now() < time.Hour {
		t.Errorf("%v after %v", err, w.Now())
	}
}

func TestConnectErrors(t *testing.T) {
	w := sim.NewWorld(1)
	w.Host("server")
	w.Host("client").Go(func(ctx context.Context) error {
		if err := ask(ctx, "server:7", "hello"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("no listener: %v", err)
		}
		if err := ask(ctx, "nowhere:7", "hello"); err == nil || !strings.Contains(err.Error(), "no such host") {
			t.Errorf("no such name: %v", err)
		}
		if err := ask(ctx, "192.0.2.1:7", "hello"); !errors.Is(err, syscall.ENETUNREACH) {
			t.Errorf("no such address: %v", err)
		}
		return nil
	})
	if err := w.Run(); err != nil {
		t.Error(err)
	}
}

// TestDeadlockShowsEveryHost: the error has the tasks of all hosts.
func TestDeadlockShowsEveryHost(t *testing.T) {
	w := sim.NewWorld(1)
	w.Host("server").Serve(serveEcho(":7"))
	w.Host("client").Go(func(ctx context.Context) error {
		var never spindle.Lot
		return never.Wait(ctx, "godot")
	})
	err := w.Run()
	if !errors.Is(err, sim.ErrDeadlock) {
		t.Fatal(err)
	}
	for _, want := range []string{"host server:", "waiting for the end", "host client:", "waiting for godot"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not have %q:\n%v", want, err)
		}
	}
}

func TestTheFirstFailureEndsTheWorld(t *testing.T) {
	w := sim.NewWorld(1)
	broken := errors.New("broken")
	cleaned := false
	w.Host("good").Go(func(ctx context.Context) error {
		err := spindle.Sleep(ctx, time.Hour)
		cleaned = true
		return err
	})
	w.Host("bad").Go(func(ctx context.Context) error {
		if err := spindle.Sleep(ctx, time.Second); err != nil {
			return err
		}
		return broken
	})
	err := w.Run()
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "host bad: ") || !cleaned || w.Now() > 2*time.Second {
		t.Errorf("%v after %v, cleaned up: %v", err, w.Now(), cleaned)
	}
}

func TestAPanicNamesItsHost(t *testing.T) {
	w := sim.NewWorld(1)
	w.Host("bomb").Go(explode)
	w.Host("other").Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
	var fault *spindle.PanicError
	if err := w.Run(); !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), "host bomb: ") || fault.Value != "boom" {
		t.Error(err)
	}
}

// TestExecRunsAnyLoop: a program makes and runs its own loop.
func TestExecRunsAnyLoop(t *testing.T) {
	w := sim.NewWorld(1)
	w.Host("server").Serve(serveEcho(":7"))
	ticks := 0
	w.Host("client").Exec(func(o loop.Options) error {
		l, err := loop.New(o)
		if err != nil {
			return err
		}
		defer l.Close()
		var tick func()
		tick = func() {
			if ticks++; ticks == 10 {
				l.Stop()
				return
			}
			l.CallLater(time.Minute, tick)
		}
		l.CallSoon(tick)
		return l.Run(context.Background())
	})
	if err := w.Run(); err != nil || ticks != 10 || w.Now() < 9*time.Minute {
		t.Errorf("%v, %d ticks, %v", err, ticks, w.Now())
	}
}

func TestRunFor(t *testing.T) {
	w := sim.NewWorld(1)
	n := 0
	w.Host("a").Go(func(ctx context.Context) error {
		for {
			if err := spindle.Sleep(ctx, time.Second); err != nil {
				return err
			}
			n++
		}
	})
	if err := w.RunFor(10*time.Second + 1); err != nil || n != 10 {
		t.Errorf("%v, %d", err, n)
	}
	if err := w.RunFor(5 * time.Second); err != nil || n != 15 || w.Now() != 15*time.Second+1 {
		t.Errorf("%v, %d, %v", err, n, w.Now())
	}
	for range 2 {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAlwaysAndEventually(t *testing.T) {
	world := func() (*sim.World, *int) {
		w, n := sim.NewWorld(1), new(int)
		w.Host("a").Go(func(ctx context.Context) error {
			for range 10 {
				*n++
				if err := spindle.Sleep(ctx, time.Second); err != nil {
					return err
				}
			}
			return nil
		})
		return w, n
	}
	w, n := world()
	w.Always("few", func() error {
		if *n > 5 {
			return errors.New("too many")
		}
		return nil
	})
	if err := w.Run(); err == nil || !strings.Contains(err.Error(), "few does not hold at 5s: too many") {
		t.Error(err)
	}
	w, n = world()
	w.Eventually("seven", 6*time.Second, func() bool { return *n >= 7 })
	w.Eventually("nine", 7*time.Second, func() bool { return *n >= 9 })
	if err := w.Run(); err == nil || !strings.Contains(err.Error(), "condition not met in time: nine") {
		t.Error(err)
	}
}

// TestEventuallyEndsAWaitBesideAHeartbeat: the heartbeat prevents ErrDeadlock.
func TestEventuallyEndsAWaitBesideAHeartbeat(t *testing.T) {
	f := sim.Search{Runs: 1}.Find(t.Context(), func(w *sim.World) {
		w.Host("server").Serve(func(ctx context.Context) error {
			for {
				if err := spindle.Sleep(ctx, time.Second); err != nil {
					return err
				}
			}
		})
		done := false
		w.Host("client").Go(func(ctx context.Context) error {
			var never cosync.Event
			err := never.Wait(ctx)
			done = err == nil
			return err
		})
		w.Eventually("the client has returned", time.Hour, func() bool { return done })
	})
	if f == nil || !strings.Contains(f.Err.Error(), "condition not met in time: the client has returned") {
		t.Errorf("%+v", f)
	}
}

// TestRunWaitsForEventually: also after every program has returned, because a server may
// still meet the condition. If none does, Run fails.
func TestRunWaitsForEventually(t *testing.T) {
	for _, late := range []bool{false, true} {
		w, happened := sim.NewWorld(1), false
		w.Host("client").Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Second) })
		w.Host("server").Serve(func(ctx context.Context) error {
			if late {
				if err := spindle.Sleep(ctx, time.Hour); err != nil {
					return err
				}
			}
			if err := spindle.Sleep(ctx, 2*time.Second); err != nil {
				return err
			}
			happened = true
			return spindle.Sleep(ctx, time.Hour)
		})
		w.Eventually("it happens", time.Minute, func() bool { return happened })
		if err := w.Run(); (err != nil && strings.Contains(err.Error(), "condition not met in time")) != late {
			t.Errorf("late: %v, %v after %v", late, err, w.Now())
		}
	}
}

// TestSlowFaultsRestoreTheBandwidth: if several faults of a link overlap, the lowest rate
// counts. After them the link has its own rate again.
func TestSlowFaultsRestoreTheBandwidth(t *testing.T) {
	for seed := range uint64(20) {
		w := sim.NewWorld(seed)
		a, b := w.Host("a"), w.Host("b")
		w.OneWay(a, b).Set(sim.LinkOptions{Bandwidth: 40_000})
		a.Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Minute) })
		w.Faults = sim.Faults{For: 30 * time.Second, Lasting: 5 * time.Second, SlowEvery: time.Second}
		if err := w.Run(); err != nil {
			t.Fatal(err)
		}
		last := map[string]string{}
		slowed := 0
		for _, e := range w.Trace() {
			if e.Kind == "bandwidth" {
				last[e.From] = e.Note
				slowed++
			}
		}
		if last["a"] != "40000 bytes per second" || last["b"] != "no limit" || slowed < 10 {
			t.Errorf("seed %d: %q after %d changes", seed, last, slowed)
		}
	}
}

// TestProgramsMayAskForTimeAtTheEnd: a program that is cancelled at the end of its world gets
// the time that it asks for with Grace.
func TestProgramsMayAskForTimeAtTheEnd(t *testing.T) {
	w := sim.NewWorld(1)
	cleaned := false
	w.Host("server").Serve(func(ctx context.Context) error {
		err := spindle.Sleep(ctx, time.Hour)
		return errors.Join(err, spindle.Grace(ctx, 30*time.Second, func(ctx context.Context) error {
			err := spindle.Sleep(ctx, 15*time.Second)
			cleaned = err == nil
			return err
		}))
	})
	w.Host("client").Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Second) })
	if err := w.Run(); err != nil || !cleaned {
		t.Errorf("%v, cleaned up: %v", err, cleaned)
	}
}

// TestLinkOptionsReplaceThoseBefore: Set with the zero options is a link as at the beginning.
func TestLinkOptionsReplaceThoseBefore(t *testing.T) {
	arrives := func(set func(l sim.Link)) (at time.Duration) {
		w := sim.NewWorld(1)
		w.Latency = sim.Fixed(time.Millisecond)
		a, b := w.Host("a"), w.Host("b")
		set(w.Link(a, b))
		b.Serve(func(ctx context.Context) error {
			c, err := stream.ListenPacket(ctx, "udp", ":53")
			if err != nil {
				return err
			}
			if _, err = c.Read(make([]byte, 1)); err == nil {
				at = w.Now()
			}
			return err
		})
		a.Go(func(ctx context.Context) error {
			c, err := stream.DialPacket(ctx, "udp", "b:53")
			if err != nil {
				return err
			}
			defer c.Close()
			if _, err := c.Write([]byte("x")); err != nil {
				return err
			}
			return spindle.Sleep(ctx, time.Minute)
		})
		if err := w.Run(); err != nil {
			t.Error(err)
		}
		return at
	}
	slow := sim.LinkOptions{Latency: sim.Fixed(time.Second)}
	if at := arrives(func(l sim.Link) { l.Set(slow) }); at < time.Second {
		t.Errorf("a latency of a second: it arrives after %v", at)
	}
	if at := arrives(func(l sim.Link) { l.Set(slow).Set(sim.LinkOptions{}) }); at == 0 || at > 10*time.Millisecond {
		t.Errorf("after the zero options: it arrives after %v", at)
	}
	if at := arrives(func(l sim.Link) { l.Set(sim.LinkOptions{Loss: 1}) }); at != 0 {
		t.Errorf("with a loss of 1: it arrives after %v", at)
	}
}
