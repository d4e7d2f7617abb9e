package gateway_test

import (
	"context"
	"sync"
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/relay"
)

func TestMain(m *testing.M) { leak.Main(m) }

func newCaller(t testing.TB, ctx context.Context, bus relay.Bus, o relay.CallerOptions) *relay.Caller {
	t.Helper()
	c, err := relay.NewCaller(ctx, bus, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serve runs a worker on goroutines until the test ends, and returns when it has subscribed.
func serve(t testing.TB, bus relay.Bus, subject string, o relay.ServeOptions, h relay.Handler) (w *relay.Worker, stop func() error) {
	t.Helper()
	w = relay.NewWorker(bus)
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	o.Ready = func() { close(ready) }
	go func() { ended <- w.Serve(ctx, subject, h, o) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { stop() })
	return w, stop
}

func echo(_ context.Context, r *relay.Request) ([]byte, error) { return r.Body, nil }

// queued returns how many requests wait in the queues of a subject, by the metrics of its workers.
func queued(subject string) (n int) {
	for _, m := range probe.AllMetered() {
		for _, s := range m.ProbeMetrics() {
			if s.Name == "spindle_relay_queued" && s.Labels[0] == [2]string{"subject", subject} {
				n += int(s.Value)
			}
		}
	}
	return n
}
