package loop_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/relay"
)

func TestCurrentIsTheLoopOfTheCaller(t *testing.T) {
	a, b := newLoop(t, loop.Options{}), newLoop(t, loop.Options{})
	if loop.Internal().Current() != nil {
		t.Error("Current is not nil before a loop runs")
	}
	for _, l := range []*loop.Loop{a, b} {
		elsewhere := make(chan *loop.Loop)
		l.CallSoon(func() {
			if loop.Internal().Current() != l {
				t.Error("Current in a callback is another loop")
			}
			go func() { elsewhere <- loop.Internal().Current() }()
			if <-elsewhere != nil {
				t.Error("Current on a goroutine that a callback started is not nil")
			}
			l.Stop()
		})
		if err := l.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if loop.Internal().Current() != nil {
		t.Error("Current is not nil after the loops ran")
	}
}

// TestLoopThatDoesNotRunIsForeignToNone checks before it runs, and after Close.
func TestLoopThatDoesNotRunIsForeignToNone(t *testing.T) {
	l := newLoop(t, loop.Options{})
	check := func(when string) {
		if l.Internal().Foreign() || l.Owns() {
			t.Errorf("%s: foreign %v, owns %v", when, l.Internal().Foreign(), l.Owns())
		}
	}
	check("before Run")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	check("after Close")
}

// TestCurrentWithOthersThatOpenAndClose asks while the list of loops changes.
func TestCurrentWithOthersThatOpenAndClose(t *testing.T) {
	l := newLoop(t, loop.Options{})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			other, err := loop.New(loop.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			if loop.Internal().Current() != nil {
				t.Error("Current is not nil on a goroutine that runs no loop")
			}
			if err := other.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	l.CallSoon(func() {
		for range 1000 {
			if loop.Internal().Current() != l {
				t.Error("Current in a callback is another loop")
				break
			}
			if !slices.Contains(loop.Internal().Open(), l) {
				t.Error("Open is without a loop that runs")
				break
			}
		}
		l.Stop()
	})
	if err := l.Run(t.Context()); err != nil {
		t.Error(err)
	}
	close(stop)
	<-stopped
}

// TestCallsTakeNoLockOfTheProcess: calls of relay, from a task and from a goroutine, and waits of an Inbox
// go on while the list of loops is locked.
func TestCallsTakeNoLockOfTheProcess(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serving, stop := context.WithCancel(t.Context())
	ready, served := make(chan struct{}), make(chan error, 1)
	go func() {
		echo := func(_ context.Context, r *relay.Request) ([]byte, error) { return r.Body, nil }
		served <- relay.NewWorker(bus).Serve(serving, "echo", echo, relay.ServeOptions{Ready: func() { close(ready) }})
	}()
	<-ready
	c, err := relay.NewCaller(t.Context(), bus, relay.CallerOptions{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	l := newLoop(t, loop.Options{})
	err = spindle.Options{On: l}.Run(t.Context(), func(ctx context.Context) error {
		inbox := cosync.NewInbox[int](1)
		unlock := loop.LockList()
		late := time.AfterFunc(until.Limit, unlock) // a call that waits for the lock would never end
		for i := range 100 {
			if _, err := c.Call(ctx, "echo", nil); err != nil {
				t.Error(err)
			}
			_, err := spindle.Blocking(ctx, func() (int, error) {
				if _, err := c.Call(t.Context(), "echo", nil); err != nil {
					return 0, err
				}
				l.Post(func() { inbox.TryPut(i) })
				return inbox.Get(t.Context())
			})
			if err != nil {
				t.Error(err)
			}
		}
		if !late.Stop() {
			t.Error("a call has waited for the lock")
			return nil
		}
		unlock()
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	stop()
	<-served
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
