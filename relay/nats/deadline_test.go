package nats_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// TestDeadlineOfAStoredRequest is that of its call: time in the store counts.
func TestDeadlineOfAStoredRequest(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, durable(nats.Durable{}))
	began := time.Now()
	if err := bus.Publish(t.Context(), &relay.Envelope{Subject: "jobs.a", Body: []byte("1"), Deadline: time.Hour}); err != nil {
		t.Fatal(err)
	}
	published := time.Now()
	until.Holds(t, func() bool { return time.Since(published) > 100*time.Millisecond })
	joining := time.Now()
	s := subscribe(t, bus)
	defer s.Close()
	asked := time.Now()
	precision := asked.Sub(joining) / 2 // of what is known of the server's clock
	d := next(t, s, "1", 1)
	d.Settle(relay.Outcome{})
	if most := time.Hour - asked.Sub(published) + precision; d.Deadline > most {
		t.Errorf("%v are left, at most %v", d.Deadline, most)
	}
	if least := time.Hour - time.Since(began) - precision; d.Deadline < least {
		t.Errorf("%v are left, at least %v", d.Deadline, least)
	}
}

// TestStoredRequestAfterItsDeadline does not run, and does not stay.
func TestStoredRequestAfterItsDeadline(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, durable(nats.Durable{}))
	const deadline = 50 * time.Millisecond
	stored := uint64(0)
	for c := caller(t, bus); stored == 0; { // on a busy machine a deadline may pass before the request is sent
		if _, err := c.Do(t.Context(), relay.Envelope{Subject: "jobs.a", Deadline: deadline}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		_, stream := streamOf(t, b)
		stored = stream.CachedInfo().State.Msgs
	}
	began := time.Now()
	until.Holds(t, func() bool { return time.Since(began) > deadline })
	w, _ := serve(t, bus, "jobs.a", func(context.Context, *relay.Request) ([]byte, error) {
		t.Error("the handler runs")
		return nil, nil
	}, relay.ServeOptions{})
	until.Holds(t, func() bool { return w.Stats().Expired >= stored })
	until.Holds(t, func() bool {
		_, stream := streamOf(t, b)
		return stream.CachedInfo().State.Msgs == 0
	})
}
