package nats_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// streamOf returns the stream of durable subjects, by a plain client.
func streamOf(t testing.TB, b *broker.Broker) (jetstream.JetStream, jetstream.Stream) {
	t.Helper()
	js := jetStream(t, b)
	s, err := js.Stream(t.Context(), "SPINDLE")
	if err != nil {
		t.Fatal(err)
	}
	return js, s
}

// TestProgramsWithDifferentDurableSubjects share a stream.
func TestProgramsWithDifferentDurableSubjects(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	var buses []*nats.Bus
	for _, subjects := range [][]string{{"jobs.a"}, {"mail.*"}, {"jobs.>", "jobs.b.*"}, {"mail.c"}} {
		buses = append(buses, connect(t, b, nats.Options{Durable: []nats.Durable{{Subjects: subjects}}}))
	}
	for i, subject := range []string{"jobs.a", "mail.b", "jobs.b.c", "mail.c"} {
		if err := buses[i].Publish(t.Context(), &relay.Envelope{Subject: subject}); err != nil {
			t.Errorf("%s: %v", subject, err)
		}
	}
	_, s := streamOf(t, b)
	if got := s.CachedInfo().Config.Subjects; !slices.Equal(got, []string{"mail.*", "jobs.>"}) {
		t.Errorf("the stream has %v", got)
	}
}

// TestStreamThatHasLostItsSubjects gets them back when a request is published.
func TestStreamThatHasLostItsSubjects(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, durable(nats.Durable{}))
	js, s := streamOf(t, b)
	config := s.CachedInfo().Config
	config.Subjects = []string{"mail.*"}
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	publish(t, bus, "1")
	if err := js.DeleteStream(t.Context(), "SPINDLE"); err != nil {
		t.Fatal(err)
	}
	publish(t, bus, "2")
	next(t, subscribe(t, bus), "2", 1).Settle(relay.Outcome{})
}

// TestWorkerOfADeletedStream gets the requests of the new stream. A request of the old one that
// ends later does not end the one that has its number now.
func TestWorkerOfADeletedStream(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	o := durable(nats.Durable{})
	var log strings.Builder // written until bus is closed
	o.ErrorLog = slog.New(slog.NewTextHandler(&log, nil))
	bus := connect(t, b, o)
	s := subscribe(t, bus)
	publish(t, bus, "old")
	old := next(t, s, "old", 1)
	js, _ := streamOf(t, b)
	if err := js.DeleteStream(t.Context(), "SPINDLE"); err != nil {
		t.Fatal(err)
	}
	publish(t, bus, "new")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if d, err := s.Next(ctx); err != nil || string(d.Body) != "new" {
		t.Fatalf("got %+v, %v", d.Envelope, err)
	}
	old.Settle(relay.Outcome{})
	if err := bus.Close(); err != nil { // when it is settled
		t.Fatal(err)
	}
	_, stream := streamOf(t, b)
	if n := stream.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("the stream has %d requests", n)
	}
	if n := strings.Count(log.String(), "was deleted, and is made again"); n != 1 {
		t.Errorf("log %q", log.String())
	}
}

// TestWorkerOfADeletedConsumer goes on with a new one.
func TestWorkerOfADeletedConsumer(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, durable(nats.Durable{}))
	s := subscribe(t, bus)
	_, stream := streamOf(t, b)
	names := stream.ConsumerNames(t.Context())
	for name := range names.Name() {
		if err := stream.DeleteConsumer(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if err := names.Err(); err != nil {
		t.Fatal(err)
	}
	publish(t, bus, "1")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	d, err := s.Next(ctx)
	if err != nil || string(d.Body) != "1" {
		t.Fatalf("got %+v, %v", d.Envelope, err)
	}
	d.Settle(relay.Outcome{})
}

// TestSubjectThatNoStreamTakes: the error has the subject, the stream and the cause. The bus is
// not down.
func TestSubjectThatNoStreamTakes(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, durable(nats.Durable{}))
	js, _ := streamOf(t, b)
	if err := js.DeleteStream(t.Context(), "SPINDLE"); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"jobs.b"}}); err != nil {
		t.Fatal(err)
	}
	err := bus.Publish(t.Context(), &relay.Envelope{Subject: "jobs.a"})
	if err == nil || errors.Is(err, relay.ErrDown) {
		t.Fatal(err)
	}
	for _, part := range []string{"jobs.a", "SPINDLE", "overlap"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error %q lacks %q", err, part)
		}
	}
}
