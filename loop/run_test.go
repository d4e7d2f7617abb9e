package loop_test

import (
	"context"
	"errors"
	"testing"

	"github.com/spindleloop/spindle/loop"
)

// detachable is a context that counts the functions of AfterFunc.
type detachable struct {
	context.Context
	done      chan struct{}
	listeners int
}

func (c *detachable) Done() <-chan struct{} { return c.done }

func (c *detachable) AfterFunc(func()) func() bool {
	c.listeners++
	return func() bool { c.listeners--; return true }
}

// TestRunDetachesFromItsContext: a context that lives longer must not keep the loop alive.
func TestRunDetachesFromItsContext(t *testing.T) {
	l := newLoop(t, loop.Options{})
	ctx := &detachable{Context: context.Background(), done: make(chan struct{})}
	for range 3 {
		listening := 0
		l.CallSoon(func() { listening = ctx.listeners; l.Stop() })
		if err := l.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if listening != 1 || ctx.listeners != 0 {
			t.Errorf("%d listeners during Run, %d after", listening, ctx.listeners)
		}
	}
}

// TestEndedContextRunsNothing: Run returns at once, every time.
func TestEndedContextRunsNothing(t *testing.T) {
	l := newLoop(t, loop.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l.CallSoon(func() { t.Error("ran with a context that had ended") })
	for range 100 {
		l.Run(ctx)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	l := newLoop(t, loop.Options{})
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	l.CallSoon(func() { cancel(cause) })
	if err := l.Run(ctx); err != cause {
		t.Fatalf("Run: %v, want the cause", err)
	}
	if err := l.Run(ctx); err != cause {
		t.Fatalf("Run with an ended context: %v", err)
	}
	l.CallSoon(l.Stop)
	run(t, l) // the loop still works
}

func TestRunDoesNotEndWithoutWork(t *testing.T) {
	l := newLoop(t, loop.Options{})
	done := make(chan error)
	go func() { done <- l.Run(context.Background()) }()
	for range 3 {
		ran := make(chan struct{})
		l.Post(func() { close(ran) })
		<-ran // every time the loop had nothing left to do
	}
	l.Stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestStopBeforeRun(t *testing.T) {
	l := newLoop(t, loop.Options{})
	l.CallSoon(func() { t.Error("ran after Stop") }).Cancel()
	l.Stop()
	l.Stop()
	run(t, l)
	// The Stop was used up: the next Run runs.
	ran := false
	l.CallSoon(func() { ran = true; l.Stop(); l.Stop() })
	run(t, l)
	if !ran {
		t.Fatal("a Stop outlived the Run it ended")
	}
}

// TestStopIsForOneRun ends a Run for every reason at once: none of them ends the next one.
func TestStopIsForOneRun(t *testing.T) {
	l := newLoop(t, loop.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	l.CallSoon(func() { l.Stop(); cancel(); panic("and this") })
	var p *loop.PanicError
	if err := l.Run(ctx); !errors.As(err, &p) {
		t.Fatalf("Run: %v", err)
	}
	ran := false
	l.CallSoon(func() { ran = true; l.Stop() })
	run(t, l)
	if !ran {
		t.Fatal("an old Stop ended a new Run")
	}
}

func TestStopFromAnotherGoroutine(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		for range 100 {
			go l.Stop()
			run(t, l) // a Stop while the loop begins to wait is not lost
		}
	})
}

func TestStopFinishesTheTurn(t *testing.T) {
	l := newLoop(t, loop.Options{})
	order := ""
	l.CallSoon(func() { order += "a"; l.Stop() })
	l.CallSoon(func() { order += "b" })
	run(t, l)
	if order != "ab" {
		t.Fatalf("order %q", order)
	}
}

func TestRunTwiceIsRefused(t *testing.T) {
	l := newLoop(t, loop.Options{})
	l.CallSoon(func() {
		wantPanic(t, "from a callback", func() { l.Run(context.Background()) })
		wantPanic(t, "from a callback", func() { l.RunOnce(0) })
		wantPanic(t, "from a callback", func() { l.Poll(0) })
		done := make(chan struct{})
		go func() {
			defer close(done)
			wantPanic(t, "another goroutine", func() { l.Run(context.Background()) })
		}()
		<-done
		l.Stop()
	})
	run(t, l)
}

// TestStopBeforeAWaitInGo: the wait notices a Stop that came before the loop took its inbox, here
// in the second of two events, after the first one has panicked.
func TestStopBeforeAWaitInGo(t *testing.T) {
	l := newLoop(t, loop.Options{OnPanic: func(*loop.PanicError) error { return nil }})
	fds := socketpair(t)
	write(fds[1], "x")
	l.AddReader(fds[0], func() { l.RemoveReader(fds[0]); panic("reader") })
	l.AddWriter(fds[0], func() { l.RemoveWriter(fds[0]); l.Internal().ExpectPost(); l.Stop() })
	if err := l.Run(t.Context()); err != nil {
		t.Error(err)
	}
}
