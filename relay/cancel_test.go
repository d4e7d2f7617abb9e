package relay_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
)

// TestManyCallsCanceledInTheQueue: no handler runs for a call that was cancelled before a worker
// had its request, however many there are.
func TestManyCallsCanceledInTheQueue(t *testing.T) {
	const calls = 10_000
	for name, begin := range map[string]func(t *testing.T, bus relay.Bus, ready func() bool) relay.CallerStats{
		"in tasks":      callInTasks,
		"on goroutines": callOnGoroutines,
	} {
		t.Run(name, func(t *testing.T) {
			bus := relay.NewLocal(relay.LocalOptions{Queue: calls})
			var handled atomic.Int32
			entered, release := make(chan bool, calls), make(chan bool)
			w, _ := serve(t, bus, "work", relay.ServeOptions{Concurrency: 1}, func(context.Context, *relay.Request) ([]byte, error) {
				entered <- true
				<-release
				handled.Add(1)
				return nil, nil
			})
			if err := bus.TryPublish(&relay.Envelope{Subject: "work"}); err != nil {
				t.Fatal(err)
			}
			<-entered
			s := begin(t, bus, func() bool { return queued("work") == calls })
			if s.Canceled != calls || s.CancelsSent != calls || s.CancelsLost != 0 || s.Waiting != 0 {
				t.Errorf("%+v", s)
			}
			close(release)
			until.Holds(t, func() bool { s := w.Stats(); return s.Revoked+s.Finished >= 1+calls })
			if s := w.Stats(); s.Revoked != calls || s.Finished != 1 || s.Forgotten != 0 || handled.Load() != 1 {
				t.Errorf("%+v, %d handled", s, handled.Load())
			}
		})
	}
}

// callInTasks makes calls until ready, and cancels them.
func callInTasks(t *testing.T, bus relay.Bus, ready func() bool) (s relay.CallerStats) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		c := newCaller(t, ctx, bus, relay.CallerOptions{Timeout: time.Hour})
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for !ready() {
				n.Go(func(ctx context.Context) error {
					_, err := c.Call(ctx, "work", nil)
					return err
				})
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			n.Scope().Cancel(nil)
			return nil
		})
		s = c.Stats()
		return errors.Join(err, c.Close())
	})
	if err != nil {
		t.Error(err)
	}
	return s
}

// callOnGoroutines is callInTasks with a stream for each call, on one goroutine.
func callOnGoroutines(t *testing.T, bus relay.Bus, ready func() bool) relay.CallerStats {
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{Timeout: time.Hour})
	var streams []*relay.Stream
	for !ready() {
		s, err := c.Stream(t.Context(), relay.Envelope{Subject: "work"})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	for _, s := range streams {
		s.Close()
	}
	s := c.Stats()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return s
}

// TestGroupsOfACall: a call that one group has answered starts the handlers of the others, too.
// One that was cancelled does not.
func TestGroupsOfACall(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	entered, release := make(chan bool), make(chan bool)
	w, _ := serve(t, bus, "work", relay.ServeOptions{Group: "slow", Concurrency: 1}, func(_ context.Context, r *relay.Request) ([]byte, error) {
		if string(r.Body) == "block" {
			entered <- true
			<-release
		}
		return nil, nil
	})
	if err := bus.TryPublish(&relay.Envelope{Subject: "work", Body: []byte("block")}); err != nil {
		t.Fatal(err)
	}
	<-entered
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	canceled, err := c.Stream(t.Context(), relay.Envelope{Subject: "work"}) // only for the slow group
	if err != nil {
		t.Fatal(err)
	}
	serve(t, bus, "work", relay.ServeOptions{Group: "quick"}, echo)
	if _, err := c.Call(t.Context(), "work", nil); err != nil {
		t.Fatal(err)
	}
	canceled.Close()
	close(release)
	until.Holds(t, func() bool { s := w.Stats(); return s.Revoked+s.Finished >= 3 })
	if s := w.Stats(); s.Revoked != 1 || s.Finished != 2 {
		t.Errorf("%+v", s)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// exiting is a context that ends the goroutine that waits for its end.
type exiting struct{ context.Context }

func (exiting) Done() <-chan struct{} {
	runtime.Goexit()
	return nil
}

// TestCallThatDoesNotReturn ends: its task was made to exit, it has panicked, or its goroutine exits.
func TestCallThatDoesNotReturn(t *testing.T) {
	straggle := func(t *testing.T, c *relay.Caller) {
		err := spindle.Options{Grace: time.Millisecond}.Run(t.Context(), func(ctx context.Context) error {
			spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
				return spindle.Shield(ctx, func(ctx context.Context) error {
					for {
						c.Call(ctx, "work", nil)
					}
				})
			})
			until.InTask(ctx, t, func() bool { return c.Stats().Waiting == 1 })
			return nil
		})
		if !errors.Is(err, spindle.ErrStragglers) {
			t.Error(err)
		}
	}
	for name, call := range map[string]func(t *testing.T, c *relay.Caller){
		"a straggler":                      straggle,
		"a straggler that waits for space": straggle,
		"a callback": func(t *testing.T, c *relay.Caller) {
			err := spindle.Run(t.Context(), func(ctx context.Context) error {
				called := spindle.NewFuture[any](ctx)
				spindle.LoopOf(ctx).CallSoon(func() {
					defer func() { called.Resolve(recover()) }()
					c.Call(context.Background(), "work", nil)
				})
				panicked, err := called.Await(ctx)
				if panicked == nil {
					t.Error("a call in a callback does not panic")
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		},
		"a goroutine": func(t *testing.T, c *relay.Caller) {
			var all sync.WaitGroup
			all.Go(func() { c.Call(exiting{t.Context()}, "work", nil) })
			all.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bus := relay.NewLocal(relay.LocalOptions{Queue: 4})
			sub, err := bus.Subscribe(t.Context(), "work", "")
			if err != nil {
				t.Fatal(err)
			}
			defer sub.Close()
			for err == nil && strings.HasSuffix(name, "space") {
				err = bus.TryPublish(&relay.Envelope{Subject: "work"})
			}
			c := newCaller(t, t.Context(), bus, relay.CallerOptions{Timeout: time.Hour})
			call(t, c)
			if s := c.Stats(); s.Waiting != 0 || s.Canceled != 1 && !strings.HasPrefix(name, "a straggler") {
				t.Errorf("%+v", s)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
