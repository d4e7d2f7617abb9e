package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/sim"
)

// redelivering is a bus that delivers again what a worker did not finish.
type redelivering struct {
	relay.Bus
	outcomes []relay.Outcome
	later    bool // it would deliver again after the end of the test
}

func (b *redelivering) Subscribe(ctx context.Context, subject, group string) (relay.Subscription, error) {
	s, err := b.Bus.Subscribe(ctx, subject, group)
	return &redelivery{s, b}, err
}

type redelivery struct {
	relay.Subscription
	b *redelivering
}

func (s *redelivery) Next(ctx context.Context) (relay.Delivery, error) {
	d, err := s.Subscription.Next(ctx)
	d.Settle = func(o relay.Outcome) {
		s.b.outcomes = append(s.b.outcomes, o)
		if o == (relay.Outcome{Again: true}) && !s.b.later {
			again := *d.Envelope
			again.Attempt++
			_ = s.b.TryPublish(&again) // another worker is there
		}
	}
	return d, err
}

// TestRedelivery: a worker that is stopped gives its request to another one.
func TestRedelivery(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		bus := &redelivering{Bus: relay.NewLocal(relay.LocalOptions{})}
		attempts := []uint32{}
		handle := func(ctx context.Context, r *relay.Request) ([]byte, error) {
			if attempts = append(attempts, r.Attempt); r.Attempt == 1 {
				return nil, spindle.Sleep(ctx, time.Hour)
			}
			return []byte("second"), nil
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			defer n.Scope().Cancel(nil)
			var first *spindle.Scope
			n.Go(func(ctx context.Context) error {
				return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
					first = s
					return relay.NewWorker(bus).Serve(ctx, "work", handle, relay.ServeOptions{InTasks: true, Drain: time.Second})
				})
			})
			if err := sim.WaitAllBlocked(ctx); err != nil {
				return err
			}
			c := newCaller(t, ctx, bus, relay.CallerOptions{})
			n.Go(func(ctx context.Context) error {
				if err := spindle.Sleep(ctx, time.Second); err != nil {
					return err
				}
				first.Cancel(nil)
				return relay.NewWorker(bus).Serve(ctx, "work", handle, relay.ServeOptions{InTasks: true})
			})
			reply, err := c.Call(ctx, "work", nil)
			if string(reply) != "second" || len(attempts) != 2 {
				t.Errorf("%q, %v, attempts %v", reply, err, attempts)
			}
			if err := sim.WaitAllBlocked(ctx); err != nil {
				return err
			}
			if len(bus.outcomes) != 2 || bus.outcomes[0] != (relay.Outcome{Again: true}) || bus.outcomes[1] != (relay.Outcome{}) {
				t.Errorf("outcomes %v", bus.outcomes)
			}
			return errors.Join(err, c.Close())
		})
	})
}

// TestRetry: a handler that fails with ErrRetry, and a delivery of a request that runs, are
// delivered again.
func TestRetry(t *testing.T) {
	no := errors.New("no")
	for name, c := range map[string]struct {
		handle   relay.Handler
		outcomes []relay.Outcome
	}{
		"a handler asks for it": {func(_ context.Context, r *relay.Request) ([]byte, error) {
			if r.Attempt < 3 {
				return nil, fmt.Errorf("no connection: %w", relay.ErrRetry)
			}
			return []byte("done"), nil
		}, []relay.Outcome{{Again: true}, {Again: true}, {}}},
		"a handler fails": {func(context.Context, *relay.Request) ([]byte, error) {
			return nil, no
		}, []relay.Outcome{{Err: no}}},
	} {
		t.Run(name, func(t *testing.T) {
			sim.Test(t, func(ctx context.Context) error {
				bus := &redelivering{Bus: relay.NewLocal(relay.LocalOptions{})}
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					defer n.Scope().Cancel(nil)
					n.Go(func(ctx context.Context) error {
						return relay.NewWorker(bus).Serve(ctx, "work", c.handle, relay.ServeOptions{InTasks: true})
					})
					if err := sim.WaitAllBlocked(ctx); err != nil {
						return err
					}
					if err := bus.TryPublish(&relay.Envelope{Subject: "work", Attempt: 1}); err != nil {
						return err
					}
					if err := sim.WaitAllBlocked(ctx); err != nil {
						return err
					}
					if !slices.Equal(bus.outcomes, c.outcomes) {
						t.Errorf("outcomes %v", bus.outcomes)
					}
					return nil
				})
			})
		})
	}
}

// TestRedeliveryOfARequestThatRuns: the delivery of a request that this worker has already
// is given back, so that the request is not lost if its handler dies.
func TestRedeliveryOfARequestThatRuns(t *testing.T) {
	for name, e := range map[string]relay.Envelope{
		"a call": {Subject: "work", ReplyTo: "caller", ID: 7},
		"a key":  {Subject: "work", Headers: map[string]string{relay.IdempotencyKey: "k"}},
	} {
		t.Run(name, func(t *testing.T) {
			sim.Test(t, func(ctx context.Context) error {
				bus := &redelivering{Bus: relay.NewLocal(relay.LocalOptions{}), later: true}
				handled := 0
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					defer n.Scope().Cancel(nil)
					n.Go(func(ctx context.Context) error {
						return relay.NewWorker(bus).Serve(ctx, "work", func(ctx context.Context, r *relay.Request) ([]byte, error) {
							handled++
							return nil, spindle.Sleep(ctx, time.Second)
						}, relay.ServeOptions{InTasks: true, Concurrency: 2, Results: relay.NewResults(1)})
					})
					if err := sim.WaitAllBlocked(ctx); err != nil {
						return err
					}
					for range 2 {
						if err := bus.TryPublish(&e); err != nil {
							return err
						}
					}
					if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
						return err
					}
					if handled != 1 || len(bus.outcomes) == 0 || slices.Contains(bus.outcomes, (relay.Outcome{})) {
						t.Errorf("handled %d, outcomes %v", handled, bus.outcomes)
					}
					return nil
				})
			})
		})
	}
}

// TestIdempotencyKeysOfSubjects: the same key on another subject is another request.
func TestIdempotencyKeysOfSubjects(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	shared := relay.NewResults(10)
	for _, subject := range []string{"a", "b"} {
		serve(t, bus, subject, relay.ServeOptions{Results: shared}, func(context.Context, *relay.Request) ([]byte, error) {
			return []byte(subject), nil
		})
	}
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	for _, subject := range []string{"a", "b"} {
		reply, err := c.Do(t.Context(), relay.Envelope{Subject: subject, Headers: map[string]string{relay.IdempotencyKey: "k"}})
		if err != nil {
			t.Error(err)
		} else if string(reply.Body) != subject {
			t.Errorf("%s gets %q", subject, reply.Body)
		}
	}
	c.Close()
}

func TestIdempotencyKeys(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	handled := 0
	entered, release := make(chan struct{}), make(chan struct{})
	w, _ := serve(t, bus, "pay", relay.ServeOptions{Concurrency: 2, Results: relay.NewResults(1)}, func(_ context.Context, r *relay.Request) ([]byte, error) {
		switch string(r.Body) {
		case "fail":
			return nil, errors.New("not kept")
		case "block":
			close(entered)
			<-release
		}
		handled++
		return []byte{byte('0' + handled)}, nil
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	call := func(key, body string) (string, error) {
		reply, err := c.Do(t.Context(), relay.Envelope{Subject: "pay", Body: []byte(body), Headers: map[string]string{relay.IdempotencyKey: key}})
		if err != nil {
			return "", err
		}
		return string(reply.Body), nil
	}
	if _, err := call("a", "fail"); err == nil {
		t.Error("it does not fail")
	}
	for range 3 {
		if reply, err := call("a", "pay"); reply != "1" || err != nil {
			t.Errorf("a: %q, %v", reply, err)
		}
	}
	blocked := make(chan error)
	go func() {
		_, err := call("b", "block")
		blocked <- err
	}()
	<-entered
	_, err := call("b", "pay")
	if remote := (*relay.RemoteError)(nil); !errors.As(err, &remote) || remote.Code != "duplicate" {
		t.Errorf("while b runs: %v", err)
	}
	close(release)
	if err := <-blocked; err != nil {
		t.Error(err)
	}
	if reply, err := call("a", "pay"); reply != "3" || err != nil { // b has replaced it
		t.Errorf("a, forgotten: %q, %v", reply, err)
	}
	if s := w.Stats(); s.Replayed != 2 {
		t.Errorf("%+v", s)
	}
	c.Close()
}

// TestReplayedHeaders: a reply that was kept has its headers, such as the content type of an
// HTTP response.
func TestReplayedHeaders(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	w, _ := serve(t, bus, "pay", relay.ServeOptions{Results: relay.NewResults(1)}, func(_ context.Context, r *relay.Request) ([]byte, error) {
		r.SetHeader("Content-Type", "application/json")
		return []byte("{}"), nil
	})
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{})
	for range 2 {
		reply, err := c.Do(t.Context(), relay.Envelope{Subject: "pay", Headers: map[string]string{relay.IdempotencyKey: "k"}})
		if err != nil {
			t.Fatal(err)
		}
		if reply.Headers["Content-Type"] != "application/json" || string(reply.Body) != "{}" {
			t.Errorf("%v, %q", reply.Headers, reply.Body)
		}
	}
	if s := w.Stats(); s.Replayed != 1 {
		t.Errorf("%+v", s)
	}
	c.Close()
}

// TestOutcomeOfAHandlerThatExits is that of one that panics: its request is not taken for one that was handled.
func TestOutcomeOfAHandlerThatExits(t *testing.T) {
	for _, retry := range []bool{false, true} {
		bus := &redelivering{Bus: relay.NewLocal(relay.LocalOptions{}), later: true}
		w, stop := serve(t, bus, "work", relay.ServeOptions{
			Retry:    func(*relay.Request, error) (bool, time.Duration) { return retry, time.Hour },
			ErrorLog: slog.New(slog.DiscardHandler),
		}, func(context.Context, *relay.Request) ([]byte, error) {
			runtime.Goexit()
			return nil, nil
		})
		if err := bus.TryPublish(&relay.Envelope{Subject: "work"}); err != nil {
			t.Fatal(err)
		}
		until.Holds(t, func() bool { return w.Stats().Finished == 1 })
		stop()
		if len(bus.outcomes) != 1 || bus.outcomes[0].Again != retry || (bus.outcomes[0].Err == nil) != retry {
			t.Errorf("retried %v: %+v", retry, bus.outcomes)
		}
	}
}

// TestNewResultsAreFull: a new reply replaces the oldest one.
func TestNewResultsAreFull(t *testing.T) {
	r := relay.NewResults(2)
	for _, key := range []string{"a", "b", "b", "c"} {
		if err := r.Store(t.Context(), key, []byte(key)); err != nil {
			t.Error(err)
		}
	}
	for key, want := range map[string]bool{"a": false, "b": true, "c": true} {
		if reply, ok, err := r.Load(t.Context(), key); ok != want || err != nil || ok && string(reply) != key {
			t.Errorf("%s: %q, %v, %v", key, reply, ok, err)
		}
	}
	defer func() {
		if v := recover(); v != "relay: NewResults with a capacity below 1" {
			t.Error(v)
		}
	}()
	relay.NewResults(0)
}
