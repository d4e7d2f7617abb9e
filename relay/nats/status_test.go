package nats_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

func publishJob(t *testing.T, bus *nats.Bus, key string) {
	t.Helper()
	e := &relay.Envelope{Subject: "jobs", Body: []byte(key), Headers: map[string]string{relay.IdempotencyKey: key}}
	if err := bus.Publish(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

func findJob(t *testing.T, bus *nats.Bus, key string) *nats.Job {
	t.Helper()
	job, err := bus.Job(t.Context(), "jobs", key)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// TestStatusAndCancellationOfJobs: a job is found by its key while the server keeps it. A job that
// is cancelled does not run, and the context of one that runs ends.
func TestStatusAndCancellationOfJobs(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, nats.Options{ErrorLog: quiet, Durable: []nats.Durable{{Subjects: []string{"jobs"}, DeadLetter: "dead"}}})
	began, ended := make(chan string, 10), make(chan error, 10)
	for _, key := range []string{"first", "waits", "bad"} {
		publishJob(t, bus, key)
	}
	for key, want := range map[string]bool{"first": true, "waits": true, "unknown": false} {
		if job := findJob(t, bus, key); (job != nil) != want || want && (job.Dead || job.Subject != "jobs" || time.Since(job.Published) > time.Minute) {
			t.Errorf("%s is %+v", key, job)
		}
	}
	if found, err := bus.CancelJob(t.Context(), "jobs", "waits"); !found || err != nil {
		t.Errorf("cancelling a job that waits: %t, %v", found, err)
	}
	serve(t, bus, "jobs", func(ctx context.Context, r *relay.Request) ([]byte, error) {
		began <- string(r.Body)
		if string(r.Body) == "bad" {
			return nil, errors.New("no good")
		}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}, relay.ServeOptions{Concurrency: 1, ErrorLog: quiet})
	if key := <-began; key != "first" {
		t.Errorf("%s runs", key)
	}
	if found, err := bus.CancelJob(t.Context(), "jobs", "first"); !found || err != nil {
		t.Errorf("cancelling a job that runs: %t, %v", found, err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the handler has ended with %v", err)
	}
	if key := <-began; key != "bad" {
		t.Errorf("%s runs", key)
	}
	until.Holds(t, func() bool { j := findJob(t, bus, "bad"); return j != nil && j.Dead && j.Reason == "no good" })
	for _, key := range []string{"first", "waits"} {
		if job := findJob(t, bus, key); job != nil {
			t.Errorf("%s is %+v after it was cancelled", key, job)
		}
	}
	if found, err := bus.CancelJob(t.Context(), "jobs", "first"); found || err != nil {
		t.Errorf("cancelling it again: %t, %v", found, err)
	}
}

// TestMetricsOfJobs: an inspector has them by state.
func TestMetricsOfJobs(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, nats.Options{Durable: []nats.Durable{{Subjects: []string{"jobs"}}}})
	began, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	serve(t, bus, "jobs", func(context.Context, *relay.Request) ([]byte, error) {
		began <- struct{}{}
		<-release
		return nil, nil
	}, relay.ServeOptions{Concurrency: 1})
	publishJob(t, bus, "one")
	publishJob(t, bus, "two")
	<-began
	until.Holds(t, func() bool {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "http://localhost/metrics", nil)
		r.RemoteAddr = "127.0.0.1:1"
		inspect.Handler(inspect.Options{}).ServeHTTP(w, r)
		return strings.Contains(w.Body.String(), `spindle_relay_jobs{subject="jobs",group="workers",state="running"} 1`) &&
			strings.Contains(w.Body.String(), `spindle_relay_jobs{subject="jobs",group="workers",state="waiting"} 1`)
	})
	go func() { <-began }()
}

// TestToolsForServices find the subjects that workers serve, with their counts.
func TestToolsForServices(t *testing.T) {
	b := start(t, broker.Options{})
	bus := connect(t, b, nats.Options{Service: nats.Service{Name: "shop", Version: "1.2.3", Description: "sells"}})
	serve(t, bus, "shop.pay", func(_ context.Context, r *relay.Request) ([]byte, error) {
		if len(r.Body) > 0 {
			return nil, errors.New("no money")
		}
		return nil, nil
	}, relay.ServeOptions{})
	c := caller(t, bus)
	for _, body := range []string{"", "", "much"} {
		_, _ = c.Call(t.Context(), "shop.pay", []byte(body))
	}
	tool, err := client.Connect(b.URL(), patient)
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	ask := func(subject string, into any) {
		t.Helper()
		m, err := tool.RequestWithContext(t.Context(), subject, nil)
		if err == nil {
			err = json.Unmarshal(m.Data, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
	}
	var ping micro.Ping
	ask("$SRV.PING", &ping)
	var info micro.Info
	ask("$SRV.INFO.shop", &info)
	var stats micro.Stats
	ask("$SRV.STATS.shop."+ping.ID, &stats)
	if ping.Name != "shop" || ping.Version != "1.2.3" || info.Description != "sells" || len(info.Endpoints) != 1 || info.Endpoints[0].Subject != "shop.pay" {
		t.Errorf("%+v, %+v", ping, info)
	}
	if len(stats.Endpoints) != 1 || stats.Endpoints[0].NumRequests != 3 || stats.Endpoints[0].NumErrors != 1 || stats.Endpoints[0].LastError != "no money" {
		t.Errorf("%+v", stats)
	}
}
