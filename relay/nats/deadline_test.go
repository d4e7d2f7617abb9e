package nats_test

import (
	"context"
	"errors"
	"testing"
	"time"

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
	stored := time.Now()
	until(t, func() bool { return time.Since(stored) > 100*time.Millisecond })
	s := subscribe(t, bus)
	defer s.Close()
	asked := time.Now()
	d := next(t, s, "1", 1)
	d.Settle(relay.Done)
	// The clock of the server is known up to the time of a request to it.
	const precision = 50 * time.Millisecond
	if most := time.Hour - asked.Sub(stored) + precision; d.Deadline > most {
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
	c := caller(t, bus)
	if _, err := c.Do(t.Context(), relay.Envelope{Subject: "jobs.a", Deadline: 50 * time.Millisecond}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	began := time.Now()
	until(t, func() bool { return time.Since(began) > 100*time.Millisecond })
	w, _ := serve(t, bus, "jobs.a", func(context.Context, *relay.Request) ([]byte, error) {
		t.Error("the handler runs")
		return nil, nil
	}, relay.ServeOptions{})
	until(t, func() bool { return w.Stats().Expired == 1 })
	until(t, func() bool {
		_, stream := streamOf(t, b)
		return stream.CachedInfo().State.Msgs == 0
	})
}
