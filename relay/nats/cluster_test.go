package nats_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// clusterCalls is how many calls TestClusterUnderLoad makes. The environment variable
// SPINDLE_NATS_CALLS changes it.
func clusterCalls(t *testing.T) int {
	text := os.Getenv("SPINDLE_NATS_CALLS")
	if text == "" {
		return 1000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("SPINDLE_NATS_CALLS=%s: want a number of calls", text)
	}
	return n
}

// load makes calls until all have a reply, and counts what happened.
type load struct {
	ctx      context.Context // of the calls; a test that hangs fails by it
	bus      *nats.Bus
	c        *relay.Caller
	calls    int           // at least
	deadline time.Duration // of each call
	enough   func() bool   // reports whether no more calls are needed
	third    chan struct{} // closed when a third of the calls are done
	next     atomic.Int64
	done     atomic.Int64
	retries  atomic.Int64
}

// run makes calls of a subject from n goroutines. A call that has failed, because a server
// was gone, is made again with the same key.
func (l *load) run(t *testing.T, n int, subject string) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for i := l.next.Add(1); (i <= int64(l.calls) || !l.enough()) && l.ctx.Err() == nil; i = l.next.Add(1) {
				l.call(t, subject, fmt.Sprint(subject, " ", i))
				if l.done.Add(1) == int64(l.calls+2)/3 {
					close(l.third)
				}
			}
		})
	}
	all.Wait()
}

func (l *load) call(t *testing.T, subject, key string) {
	e := keyed(subject, key)
	e.Body, e.Deadline = []byte(key), l.deadline
	var last error
	for attempts := 0; ; attempts++ {
		reply, err := l.c.Do(l.ctx, e)
		var remote *relay.RemoteError
		switch {
		case err == nil:
			if string(reply.Body) != key {
				t.Errorf("%s: got the reply %q", key, reply.Body)
			}
			return
		case l.ctx.Err() != nil:
			t.Errorf("%s: has no reply after %d attempts; the last has failed with %v, the one before with %v", key, attempts+1, err, last)
			return
		case errors.Is(err, relay.ErrDown), errors.Is(err, relay.ErrNoResponder), errors.Is(err, context.DeadlineExceeded),
			errors.As(err, &remote):
			last = err
			l.retries.Add(1)
			l.awaitServer()
		default:
			t.Errorf("%s: %v", key, err)
			return
		}
	}
}

// awaitServer waits until the client has reconnected.
func (l *load) awaitServer() {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for l.bus.Ready() != nil {
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return
		}
	}
}

// loadTime is how long a load may take: a run of many calls that SPINDLE_NATS_CALLS asks for takes
// longer.
func loadTime(calls int) time.Duration {
	return 4*time.Minute + time.Duration(calls)*5*time.Millisecond
}

// TestClusterUnderLoad kills one of three servers, the one that the caller is connected to,
// while calls are made: half of them plain, and half durable, with replies kept by idempotency
// key. Every call gets its reply, every key has one effect, and no waiter is left.
func TestClusterUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	b := start(t, broker.Options{Dir: t.TempDir(), Servers: 3})
	o := durable(nats.Durable{Replicas: 3, AckWait: 5 * time.Second, Attempts: 100, Backoff: []time.Duration{100 * time.Millisecond}})
	var effects sync.Map // number of effects by key
	var jobs atomic.Int64
	handler := func(_ context.Context, r *relay.Request) ([]byte, error) {
		n, _ := effects.LoadOrStore(string(r.Body), new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		jobs.Add(1)
		return r.Body, nil
	}
	var buses []*nats.Bus
	for range 2 {
		bus := connect(t, b, o)
		buses = append(buses, bus)
		serve(t, bus, "plain", echo, relay.ServeOptions{})
		serve(t, bus, "jobs.a", handler, relay.ServeOptions{Results: resultsOf(t, bus, nats.ResultsOptions{Replicas: 3})})
	}
	urls := strings.Split(b.URL(), ",")
	o.NATS = []client.Option{client.DontRandomize(), patient}
	bus, err := nats.Connect(t.Context(), strings.Join([]string{urls[1], urls[2], urls[0]}, ","), o)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	buses = append(buses, bus)
	c, err := relay.NewCaller(t.Context(), bus, relay.CallerOptions{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	calls := clusterCalls(t)
	ctx, cancel := context.WithTimeout(t.Context(), loadTime(calls))
	defer cancel()
	plain := &load{ctx: ctx, bus: bus, c: c, calls: calls / 2, deadline: 2 * time.Second, third: make(chan struct{}), enough: func() bool { return bus.Stats().Reconnects > 0 }}
	stored := &load{ctx: ctx, bus: bus, c: c, calls: calls / 2, deadline: 10 * time.Second, third: make(chan struct{}), enough: func() bool { return true }}
	began := time.Now()
	var all sync.WaitGroup
	all.Go(func() { plain.run(t, 16, "plain") })
	all.Go(func() { stored.run(t, 16, "jobs.a") })
	select {
	case <-stored.third:
		b.Kill(1)
	case <-ctx.Done(): // the calls say why
	}
	all.Wait()
	kept := 0
	effects.Range(func(key, n any) bool {
		if kept++; n.(*atomic.Int64).Load() != 1 {
			t.Errorf("%s had %d effects", key, n.(*atomic.Int64).Load())
		}
		return true
	})
	if kept != calls/2 {
		t.Errorf("%d of %d durable jobs were done", kept, calls/2)
	}
	s := c.Stats()
	if s.Waiting != 0 {
		t.Errorf("waiters are left: %+v", s)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	reconnects := uint64(0)
	for _, bus := range buses {
		reconnects += bus.Stats().Reconnects
	}
	t.Logf("%d calls in %v; made again: %d plain, %d durable; %d reconnects; %d jobs; caller %+v",
		plain.done.Load()+stored.done.Load(), time.Since(began).Round(time.Millisecond), plain.retries.Load(), stored.retries.Load(), reconnects, jobs.Load(), s)
}
