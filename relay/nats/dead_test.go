package nats_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// quiet is a log that is not read.
var quiet = slog.New(slog.DiscardHandler)

// A job that fails goes to the dead-letter queue, where a worker gets it with the reason. To try it
// again, that worker publishes it to its first subject.
func ExampleDurable() {
	dir, err := os.MkdirTemp("", "broker")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	b, err := broker.Start(broker.Options{Dir: dir})
	if err != nil {
		panic(err)
	}
	defer b.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	bus, err := nats.Connect(ctx, b.URL(), nats.Options{Durable: []nats.Durable{{Subjects: []string{"jobs.>"}, DeadLetter: "dead"}}})
	if err != nil {
		panic(err)
	}
	ended := make(chan error, 2)
	mended := atomic.Bool{}
	done := make(chan string)
	go func() {
		ended <- relay.NewWorker(bus).Serve(ctx, "jobs.mail", func(_ context.Context, r *relay.Request) ([]byte, error) {
			if !mended.Load() {
				return nil, errors.New("no such address")
			}
			done <- string(r.Body)
			return nil, nil
		}, relay.ServeOptions{ErrorLog: quiet})
	}()
	go func() {
		ended <- relay.NewWorker(bus).Serve(ctx, "dead", func(ctx context.Context, r *relay.Request) ([]byte, error) {
			fmt.Println(r.Headers["Relay-Dead-Subject"], "failed:", r.Headers["Relay-Dead-Reason"])
			mended.Store(true)
			return nil, bus.Publish(ctx, &relay.Envelope{Subject: r.Headers["Relay-Dead-Subject"], Body: r.Body})
		}, relay.ServeOptions{})
	}()
	if err := bus.Publish(ctx, &relay.Envelope{Subject: "jobs.mail", Body: []byte("hello")}); err != nil {
		panic(err)
	}
	fmt.Println("sent:", <-done)
	stop()
	<-ended
	<-ended
	bus.Close()
	// Output:
	// jobs.mail failed: no such address
	// sent: hello
}

// TestGivenUpJobsAreKept: a job that was tried too often, and one that fails, are in the
// dead-letter queue, with what they were. A call that fails is not: its caller has the error.
func TestGivenUpJobsAreKept(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, nats.Options{ErrorLog: quiet, Durable: []nats.Durable{{
		Subjects: []string{"jobs"}, DeadLetter: "dead", Attempts: 2, Backoff: []time.Duration{time.Millisecond},
	}}})
	serve(t, bus, "jobs", func(_ context.Context, r *relay.Request) ([]byte, error) {
		if string(r.Body) == "again" {
			return nil, fmt.Errorf("not yet: %w", relay.ErrRetry)
		}
		return nil, errors.New("never:\nnot at all")
	}, relay.ServeOptions{ErrorLog: quiet})
	if _, err := caller(t, bus).Call(t.Context(), "jobs", nil); err == nil {
		t.Error("the call has succeeded")
	}
	for _, body := range []string{"again", "never", "never"} {
		e := &relay.Envelope{Subject: "jobs", Body: []byte(body), Headers: map[string]string{"Color": "red"}}
		if err := bus.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	s, err := bus.Subscribe(t.Context(), "dead", "workers")
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]int{}
	for range 3 {
		d, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d.Headers["Relay-Dead-Subject"] != "jobs" || d.Headers["Color"] != "red" {
			t.Errorf("%+v", d.Envelope)
		}
		reasons[string(d.Body)+": "+d.Headers["Relay-Dead-Reason"]]++
		d.Settle(relay.Outcome{})
	}
	if reasons["never: never: not at all"] != 2 || reasons["again: tried 2 times; its handler failed"] != 1 {
		t.Errorf("the reasons are %v", reasons)
	}
	if n := bus.Stats().Dead; n != 1 {
		t.Errorf("%d were given up", n)
	}
}

// TestRetryPolicy: ServeOptions.Retry decides which errors are tried again, and when.
func TestRetryPolicy(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, nats.Options{Durable: []nats.Durable{{Subjects: []string{"jobs"}, Backoff: []time.Duration{time.Hour}}}})
	attempts := make(chan uint32, 10)
	serve(t, bus, "jobs", func(_ context.Context, r *relay.Request) ([]byte, error) {
		attempts <- r.Attempt
		return nil, errors.New("failed")
	}, relay.ServeOptions{ErrorLog: quiet, Retry: func(r *relay.Request, err error) (bool, time.Duration) {
		if err.Error() != "failed" {
			t.Errorf("the error is %v", err)
		}
		return r.Attempt < 3, time.Millisecond
	}})
	if err := bus.Publish(t.Context(), &relay.Envelope{Subject: "jobs"}); err != nil {
		t.Fatal(err)
	}
	for want := uint32(1); want <= 3; want++ {
		if got := <-attempts; got != want {
			t.Errorf("attempt %d, want %d", got, want)
		}
	}
}

// TestDelayedJob: a job with a delay is delivered when it has passed, as the first attempt.
func TestDelayedJob(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, nats.Options{Durable: []nats.Durable{{Subjects: []string{"jobs"}, Attempts: 1}}})
	type arrival struct {
		body    string
		attempt uint32
		at      time.Time
	}
	arrived := make(chan arrival, 2)
	serve(t, bus, "jobs", func(_ context.Context, r *relay.Request) ([]byte, error) {
		arrived <- arrival{string(r.Body), r.Attempt, time.Now()}
		return nil, nil
	}, relay.ServeOptions{})
	began := time.Now()
	const delay = 300 * time.Millisecond
	for _, job := range []struct{ body, delay string }{{"tomorrow", "24h"}, {"now", ""}, {"later", delay.String()}} {
		headers := map[string]string{}
		if job.delay != "" {
			headers[relay.Delay] = job.delay
		}
		if err := bus.Publish(t.Context(), &relay.Envelope{Subject: "jobs", Body: []byte(job.body), Headers: headers}); err != nil {
			t.Fatal(err)
		}
		if job.body != "now" {
			continue
		}
		if a := <-arrived; a.body != "now" {
			t.Errorf("%+v came first", a)
		}
	}
	if a := <-arrived; a.body != "later" || a.attempt != 1 || a.at.Sub(began) < delay {
		t.Errorf("%+v came after %v", a, a.at.Sub(began))
	}
	for _, e := range []*relay.Envelope{
		{Subject: "jobs", Headers: map[string]string{relay.Delay: "soon"}},
		{Subject: "other", Headers: map[string]string{relay.Delay: "1s"}},
	} {
		if err := bus.Publish(t.Context(), e); !errors.Is(err, relay.ErrHeader) {
			t.Errorf("%s with %v: %v", e.Subject, e.Headers, err)
		}
	}
}

// TestPeriodicJobs: two programs with the same period publish one job for each.
func TestPeriodicJobs(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	const every = 100 * time.Millisecond
	o := nats.Options{Durable: []nats.Durable{{Subjects: []string{"jobs.>"}, Every: map[string]time.Duration{"jobs.tick": every}}}}
	bus := connect(t, b, o)
	connect(t, b, o)
	keys := make(chan string, 100)
	serve(t, bus, "jobs.tick", func(_ context.Context, r *relay.Request) ([]byte, error) {
		keys <- r.Headers[relay.IdempotencyKey]
		return nil, nil
	}, relay.ServeOptions{Concurrency: 1})
	seen := map[string]bool{}
	for range 4 {
		key := <-keys
		if seen[key] || !strings.HasPrefix(key, "every 100ms at 20") {
			t.Errorf("%q after %v", key, seen)
		}
		seen[key] = true
	}
}
