package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

// index returns which loop of the group the task is on.
func index(ctx context.Context, g *loop.Group) int {
	return slices.Index(g.Loops(), spindle.LoopOf(ctx))
}

// TestRunGroup: each loop has one task, and they call each other, even one where that has ended.
func TestRunGroup(t *testing.T) {
	var ran [3]atomic.Int32
	var called atomic.Int32
	err := spindle.RunGroup(t.Context(), 3, func(ctx context.Context, g *loop.Group) error {
		i := index(ctx, g)
		ran[i].Add(1)
		if i == 0 {
			return nil
		}
		if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
		_, err := spindle.CallOn(ctx, g.Loops()[0], func(ctx context.Context) (int, error) {
			called.Add(1)
			return 0, spindle.Sleep(ctx, time.Millisecond)
		})
		return err
	})
	if err != nil || called.Load() != 2 {
		t.Errorf("%v, called %d", err, called.Load())
	}
	for i := range ran {
		if n := ran[i].Load(); n != 1 {
			t.Errorf("loop %d ran the function %d times", i, n)
		}
	}
}

// TestRunGroupFails: the first failure cancels the other runs, which have time to clean up.
func TestRunGroupFails(t *testing.T) {
	boom := errors.New("boom")
	for name, fail := range map[string]func(ctx context.Context) error{
		"function": func(context.Context) error { return boom },
		"task": func(ctx context.Context) error {
			spindle.RootNursery(ctx).Go(func(context.Context) error { return boom })
			return forever(ctx)
		},
		"callback": func(ctx context.Context) error {
			spindle.LoopOf(ctx).CallSoon(func() { panic(boom) })
			return forever(ctx)
		},
	} {
		var cleaned atomic.Int32
		err := spindle.RunGroup(t.Context(), 3, func(ctx context.Context, g *loop.Group) error {
			if index(ctx, g) == 1 {
				return fail(ctx)
			}
			err := forever(ctx)
			if !errors.Is(context.Cause(ctx), boom) {
				t.Errorf("%s: cancelled because of %v", name, context.Cause(ctx))
			}
			spindle.Shield(ctx, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Millisecond) })
			cleaned.Add(1)
			return err
		})
		if !errors.Is(err, boom) || strings.Count(err.Error(), "boom") > strings.Count(firstOf(err).Error(), "boom") {
			t.Errorf("%s: failed with %v", name, err)
		}
		if cleaned.Load() != 2 {
			t.Errorf("%s: %d of 2 runs were cancelled and cleaned up", name, cleaned.Load())
		}
	}
}

// firstOf returns the first error of several that are joined.
func firstOf(err error) error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return all.Unwrap()[0]
	}
	return err
}

// TestRunGroupPanics: the panic of a task is that of RunGroup, after the other runs have ended.
func TestRunGroupPanics(t *testing.T) {
	var ended atomic.Bool
	p := panicOf(func() error {
		return spindle.RunGroup(t.Context(), 2, func(ctx context.Context, g *loop.Group) error {
			if index(ctx, g) == 1 {
				panic("boom")
			}
			defer ended.Store(true)
			return forever(ctx)
		})
	})
	if p == nil || p.Value != "boom" || p.Also != nil || !ended.Load() {
		t.Errorf("panic %v; the other run has ended: %v", p, ended.Load())
	}
}

// TestRunGroupPanicsOnce: the panic of a task beside the function of its loop.
func TestRunGroupPanicsOnce(t *testing.T) {
	p := panicOf(func() error {
		return spindle.RunGroup(t.Context(), 2, func(ctx context.Context, g *loop.Group) error {
			if index(ctx, g) == 1 {
				spindle.RootNursery(ctx).Go(func(context.Context) error { panic("boom") })
			}
			return forever(ctx)
		})
	})
	if p == nil || p.Value != "boom" || p.Also != nil {
		t.Errorf("panic %v", p)
	}
}

// TestRunGroupEndsWithItsContext, and returns the cause of that once.
func TestRunGroupEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	var waiting atomic.Int32
	err := spindle.RunGroup(ctx, 2, func(ctx context.Context, g *loop.Group) error {
		if waiting.Add(1) == 2 {
			cancel(errCause)
		}
		return forever(ctx)
	})
	if err != errCause {
		t.Errorf("got %v", err)
	}
}

// TestRunGroupReportsStragglers: the grace of Options holds on every loop.
func TestRunGroupReportsStragglers(t *testing.T) {
	boom := errors.New("boom")
	o := spindle.Options{Grace: time.Millisecond}
	err := o.RunGroup(t.Context(), 2, func(ctx context.Context, g *loop.Group) error {
		if index(ctx, g) == 0 {
			return boom
		}
		return spindle.Shield(ctx, forever)
	})
	if !errors.Is(err, boom) || !errors.Is(err, spindle.ErrStragglers) {
		t.Errorf("got %v", err)
	}
}

// TestRunGroupFailsWhenItIsStopped, even after the run of the first loop has ended.
func TestRunGroupFailsWhenItIsStopped(t *testing.T) {
	firstEnded := make(chan struct{})
	for name, stop := range map[string]func(ctx context.Context, g *loop.Group){
		"while its first run ends": func(ctx context.Context, g *loop.Group) {
			if index(ctx, g) == 0 {
				g.Stop()
			} else {
				forever(ctx)
			}
		},
		"after its first run": func(ctx context.Context, g *loop.Group) {
			if index(ctx, g) == 0 {
				spindle.LoopOf(ctx).CallLater(time.Millisecond, func() { close(firstEnded) })
				return
			}
			spindle.Blocking(ctx, func() (int, error) { <-firstEnded; return 0, nil })
			g.Stop()
			forever(ctx)
		},
	} {
		err := spindle.RunGroup(t.Context(), 2, func(ctx context.Context, g *loop.Group) error { stop(ctx, g); return nil })
		if err == nil || !strings.Contains(err.Error(), "stopped") {
			t.Errorf("stopped %s: %v", name, err)
		}
	}
}

// broken is the kernel of the first loop of a group. Its sibling fails in Wait once fails is set.
type broken struct {
	kernel.Poller
	fails   *atomic.Bool // nil for the first loop
	waits   atomic.Int32 // that have failed
	sibling *broken
}

func (b *broken) Wait(events []kernel.Event, timeout time.Duration) (int, error) {
	if b.fails != nil && b.fails.Load() {
		b.waits.Add(1)
		return 0, syscall.EBADF
	}
	return b.Poller.Wait(events, timeout)
}

func (b *broken) Processors() int { return 2 }

func (b *broken) Sibling() (*kernel.Kernel, error) {
	k, err := kernel.Open("")
	if err == nil {
		b.sibling = &broken{Poller: k.Poller, fails: new(atomic.Bool)}
		k.Poller = b.sibling
	}
	return k, err
}

func (b *broken) Together(run []func()) {
	var all sync.WaitGroup
	for _, fn := range run {
		all.Go(fn)
	}
	all.Wait()
}

// newBroken returns options for a group with the kernel.
func newBroken(t *testing.T) (spindle.Options, *broken) {
	t.Helper()
	k, err := kernel.Open("")
	if err != nil {
		t.Fatal(err)
	}
	first := &broken{Poller: k.Poller}
	k.Poller = first
	return spindle.Options{Loop: loop.Internal().WithKernel(loop.Options{}, k)}, first
}

// TestRunGroupReportsABrokenLoopOnce, and does not run it again and again until the other runs have
// ended.
func TestRunGroupReportsABrokenLoopOnce(t *testing.T) {
	o, first := newBroken(t)
	err := o.RunGroup(t.Context(), 0, func(ctx context.Context, g *loop.Group) error {
		first.sibling.fails.Store(true)
		err := forever(ctx)
		if index(ctx, g) == 0 {
			spindle.Shield(ctx, func(ctx context.Context) error { return spindle.Sleep(ctx, 5*time.Millisecond) })
		}
		return err
	})
	if !errors.Is(err, syscall.EBADF) || strings.Count(err.Error(), syscall.EBADF.Error()) != 1 {
		t.Errorf("failed with %.1000v", err)
	}
	if n := first.sibling.waits.Load(); n > 10 {
		t.Errorf("the broken loop was run %d times", n)
	}
}

// TestRunGroupEndsCallsOnABrokenLoop: they do not wait for it.
func TestRunGroupEndsCallsOnABrokenLoop(t *testing.T) {
	o, first := newBroken(t)
	var called error
	err := o.RunGroup(t.Context(), 0, func(ctx context.Context, g *loop.Group) error {
		if index(ctx, g) == 1 {
			return nil
		}
		_, called = spindle.CallOn(ctx, g.Loops()[1], func(ctx context.Context) (int, error) {
			first.sibling.fails.Store(true)
			return 0, forever(ctx)
		})
		return nil
	})
	if !errors.Is(err, syscall.EBADF) {
		t.Errorf("failed with %.1000v", err)
	}
	if called == nil {
		t.Error("the call has succeeded")
	}
}

// TestRunGroupEndsWithItsHost: the crash of a simulated host ends all of its loops.
func TestRunGroupEndsWithItsHost(t *testing.T) {
	w := sim.NewWorld(1)
	h := w.Host("host")
	h.Exec(func(o loop.Options) error {
		return spindle.Options{Loop: o}.RunGroup(t.Context(), 3, func(ctx context.Context, g *loop.Group) error {
			if index(ctx, g) == 1 {
				return nil
			}
			_, err := spindle.CallOn(ctx, g.Loops()[1], func(ctx context.Context) (int, error) { return 0, forever(ctx) })
			return err
		})
	})
	w.After(time.Second, h.Crash)
	if err := w.RunFor(2 * time.Second); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// TestRunGroupMisuseIsNamed.
func TestRunGroupMisuseIsNamed(t *testing.T) {
	fn := func(context.Context, *loop.Group) error { return nil }
	misuse := func(want string, call func()) {
		t.Helper()
		defer func() {
			if text, _ := recover().(string); !strings.Contains(text, want) {
				t.Errorf("panic %q, want %q", text, want)
			}
		}()
		call()
	}
	misuse("RunGroup with a nil context or function", func() { spindle.RunGroup(t.Context(), 1, nil) })
	l := newLoop(t)
	misuse("RunGroup with Options.On", func() { spindle.Options{On: l}.RunGroup(t.Context(), 1, fn) })
	err := spindle.RunGroup(t.Context(), 1, func(ctx context.Context, g *loop.Group) error {
		misuse("RunGroup called in a task", func() { spindle.RunGroup(ctx, 1, fn) })
		misuse("Group.Run", func() { g.Run(ctx) })
		if err := g.Close(); fmt.Sprint(err) != "loop: running; Stop it and wait for Run to return" {
			t.Errorf("Close: %v", err)
		}
		g.Stop()
		return forever(ctx)
	})
	if err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("stopped: %v", err)
	}
}

// TestRunGroupInASimulation: the loops of a simulated host.
func TestRunGroupInASimulation(t *testing.T) {
	sum := 0
	w := sim.NewWorld(1)
	w.Host("host").Exec(func(o loop.Options) error {
		return spindle.Options{Loop: o}.RunGroup(t.Context(), 3, func(ctx context.Context, g *loop.Group) error {
			if err := spindle.Sleep(ctx, time.Second); err != nil {
				return err
			}
			_, err := spindle.CallOn(ctx, g.Loops()[0], func(context.Context) (int, error) { sum++; return 0, nil })
			return err
		})
	})
	if err := w.Run(); err != nil || sum != 3 {
		t.Errorf("%v, sum %d", err, sum)
	}
}
