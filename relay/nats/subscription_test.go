package nats_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// TestBlockedHandlerDelaysNoOther: the requests behind one with a handler that blocks are served by
// other goroutines.
func TestBlockedHandlerDelaysNoOther(t *testing.T) {
	b := start(t, broker.Options{})
	begun, release := make(chan bool), make(chan bool)
	serve(t, connect(t, b, nats.Options{}), "mixed", func(ctx context.Context, r *relay.Request) ([]byte, error) {
		if string(r.Body) == "block" {
			begun <- true
			<-release
		}
		return r.Body, nil
	}, relay.ServeOptions{Concurrency: 4})
	c := caller(t, connect(t, b, nats.Options{}))
	var blocked sync.WaitGroup
	for range 3 {
		blocked.Go(func() {
			if _, err := c.Call(t.Context(), "mixed", []byte("block")); err != nil {
				t.Error(err)
			}
		})
		<-begun
		for i := range 50 {
			if got, err := c.Call(t.Context(), "mixed", fmt.Append(nil, i)); err != nil || string(got) != fmt.Sprint(i) {
				t.Errorf("got %q, %v", got, err)
			}
		}
	}
	close(release)
	blocked.Wait()
}

// TestNextOfGoroutinesAndTasks lets tasks and goroutines take from one subscription.
func TestNextOfGoroutinesAndTasks(t *testing.T) {
	b := start(t, broker.Options{})
	bus := connect(t, b, nats.Options{})
	s, err := bus.Subscribe(t.Context(), "both", "workers")
	if err != nil {
		t.Fatal(err)
	}
	const envelopes = 200
	var mu sync.Mutex
	got := map[string]int{}
	all := make(chan bool)
	take := func(ctx context.Context) {
		for d, err := s.Next(ctx); err == nil; d, err = s.Next(ctx) {
			mu.Lock()
			got[string(d.Body)]++
			if len(got) == envelopes {
				close(all)
			}
			mu.Unlock()
		}
	}
	var takers sync.WaitGroup
	takers.Go(func() { take(context.Background()) })
	publisher := connect(t, b, nats.Options{})
	for i := range envelopes {
		if i == envelopes/2 {
			takers.Go(func() {
				_ = spindle.Run(context.Background(), func(ctx context.Context) error {
					take(ctx)
					return nil
				})
			})
		}
		if err := publisher.Publish(t.Context(), &relay.Envelope{Subject: "both", Body: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	<-all
	s.Close()
	takers.Wait()
	for body, n := range got {
		if n != 1 {
			t.Errorf("%s came %d times", body, n)
		}
	}
}

// TestDeadlineInTheQueue: the time in the queue counts, and a deadline that has passed does not
// become none.
func TestDeadlineInTheQueue(t *testing.T) {
	b := connect(t, start(t, broker.Options{}), nats.Options{})
	s, err := b.Subscribe(t.Context(), "work", "g")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, deadline := range []time.Duration{time.Hour, time.Millisecond, -time.Second} {
		if err := b.Publish(t.Context(), &relay.Envelope{Subject: "work", ReplyTo: "reply", Deadline: deadline}); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := s.Next(t.Context()); err != nil || d.Deadline <= time.Hour-time.Minute || d.Deadline > time.Hour {
		t.Errorf("%v, %v", d.Envelope, err)
	}
	until.Holds(t, func() bool { return nats.Queued(s) == 2 })
	queued := time.Now()
	until.Holds(t, func() bool { return time.Since(queued) > time.Millisecond })
	for range 2 {
		if d, err := s.Next(t.Context()); err != nil || d.Deadline >= 0 {
			t.Errorf("%v left, %v", d.Deadline, err)
		}
	}
}

// TestNextThatIsCanceled: a call of Next is cancelled, and another one gets the request.
func TestNextThatIsCanceled(t *testing.T) {
	bus := connect(t, start(t, broker.Options{}), nats.Options{})
	s, err := bus.Subscribe(t.Context(), "job", "workers")
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error), make(chan error)
		go func() { _, err := s.Next(ctx); first <- err }()
		go func() { _, err := s.Next(t.Context()); second <- err }()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		if err := bus.Publish(t.Context(), &relay.Envelope{Subject: "job"}); err != nil {
			t.Fatal(err)
		}
		if err := <-second; err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	if _, err := s.Next(t.Context()); !errors.Is(err, relay.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
