package nats_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

func resultsOf(t testing.TB, bus *nats.Bus, o nats.ResultsOptions) relay.Results {
	t.Helper()
	r, err := bus.Results(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func keyed(subject, key string) relay.Envelope {
	return relay.Envelope{Subject: subject, Headers: map[string]string{relay.IdempotencyKey: key}}
}

// TestResultsAreShared has two workers. A call that is made again is answered from the
// bucket, by whichever of them gets it.
func TestResultsAreShared(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	var effects atomic.Int64
	handler := func(context.Context, *relay.Request) ([]byte, error) {
		effects.Add(1)
		return []byte("done"), nil
	}
	var workers []*relay.Worker
	for range 2 {
		bus := connect(t, b, nats.Options{})
		w, _ := serve(t, bus, "pay", handler, relay.ServeOptions{Results: resultsOf(t, bus, nats.ResultsOptions{})})
		workers = append(workers, w)
	}
	c := caller(t, connect(t, b, nats.Options{}))
	var calls sync.WaitGroup
	for range 40 { // at the same time: one claims the key, the others wait for its reply
		calls.Go(func() {
			for {
				reply, err := c.Do(t.Context(), keyed("pay", "order 1: a key with any characters"))
				var remote *relay.RemoteError
				if errors.As(err, &remote) && remote.Code == "duplicate" {
					continue // the same worker has it
				}
				if err != nil || string(reply.Body) != "done" {
					t.Errorf("got %v, %v", reply, err)
				}
				return
			}
		})
	}
	calls.Wait()
	if n := effects.Load(); n != 1 {
		t.Errorf("%d effects of one key", n)
	}
	if workers[0].Stats().Replayed+workers[1].Stats().Replayed < 39 {
		t.Errorf("%+v, %+v", workers[0].Stats(), workers[1].Stats())
	}
}

// TestResultsOfAFailure: a handler that fails gives its key back, even when it panics.
func TestResultsOfAFailure(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, nats.Options{})
	var attempts atomic.Int64
	serve(t, bus, "pay", func(context.Context, *relay.Request) ([]byte, error) {
		switch attempts.Add(1) {
		case 1:
			return nil, errors.New("no")
		case 2:
			panic("no")
		}
		return []byte("done"), nil
	}, relay.ServeOptions{Results: resultsOf(t, bus, nats.ResultsOptions{Lease: time.Hour})})
	c := caller(t, bus)
	for _, code := range []string{"error", "panic"} {
		_, err := c.Do(t.Context(), keyed("pay", "1"))
		var remote *relay.RemoteError
		if !errors.As(err, &remote) || remote.Code != code {
			t.Fatalf("got %v", err)
		}
	}
	for range 2 {
		if reply, err := c.Do(t.Context(), keyed("pay", "1")); err != nil || string(reply.Body) != "done" {
			t.Fatalf("got %v, %v", reply, err)
		}
	}
	if attempts.Load() != 3 {
		t.Errorf("%d attempts", attempts.Load())
	}
}

// TestResultsOfAWorkerThatIsGone: a claim ends with its lease.
func TestResultsOfAWorkerThatIsGone(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	o := nats.ResultsOptions{Lease: time.Hour}
	bus := connect(t, b, nats.Options{})
	gone := resultsOf(t, bus, o)
	if _, ok, err := gone.Load(t.Context(), "k"); ok || err != nil {
		t.Fatalf("got %v, %v", ok, err)
	}
	bus.Close()
	other := resultsOf(t, connect(t, b, nats.Options{}), o)
	takesOver(t, other)
	if err := other.Store(t.Context(), "k", []byte("reply")); err != nil {
		t.Fatal(err)
	}
	third := resultsOf(t, connect(t, b, nats.Options{}), o)
	if body, ok, err := third.Load(t.Context(), "k"); string(body) != "reply" || !ok || err != nil {
		t.Errorf("got %q, %v, %v", body, ok, err)
	}
}

// TestResultsOfAWorkerThatTakesLong: a claim is renewed while its request is handled, so no
// other worker takes it.
func TestResultsOfAWorkerThatTakesLong(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	slow := resultsOf(t, connect(t, b, nats.Options{}), nats.ResultsOptions{Bucket: "long", Lease: 6 * time.Second})
	other := resultsOf(t, connect(t, b, nats.Options{}), nats.ResultsOptions{Bucket: "long", Lease: time.Hour})
	if _, ok, err := slow.Load(t.Context(), "k"); ok || err != nil {
		t.Fatalf("got %v, %v", ok, err)
	}
	loaded := make(chan string, 1)
	go func() {
		reply, ok, err := other.Load(t.Context(), "k")
		loaded <- fmt.Sprintf("%s, %v, %v", reply, ok, err)
	}()
	bucket, err := jetStream(t, b).KeyValue(t.Context(), "long")
	if err != nil {
		t.Fatal(err)
	}
	renewals, err := bucket.WatchAll(t.Context(), jetstream.UpdatesOnly())
	if err != nil {
		t.Fatal(err)
	}
	defer renewals.Stop()
	for range 2 {
		before := sighting(t, other)
		select {
		case e := <-renewals.Updates():
			nats.PassLease(other, "k", e.Revision()-1)
			until.Holds(t, func() bool { return nats.Sighted(other, "k") != before || len(loaded) > 0 })
		case got := <-loaded:
			t.Fatalf("while the request is handled: %s", got)
		}
	}
	if err := slow.Store(t.Context(), "k", []byte("reply")); err != nil {
		t.Error(err)
	}
	if got := <-loaded; got != "reply, true, <nil>" {
		t.Error(got)
	}
}

// TestResultsThatAreTooLarge: the claim stays, for a reply that can be stored.
func TestResultsThatAreTooLarge(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	r := resultsOf(t, connect(t, b, nats.Options{}), nats.ResultsOptions{})
	if _, ok, err := r.Load(t.Context(), "k"); ok || err != nil {
		t.Fatalf("got %v, %v", ok, err)
	}
	if err := r.Store(t.Context(), "k", make([]byte, 1<<20)); !errors.Is(err, relay.ErrTooLarge) {
		t.Fatal(err)
	}
	if err := r.Store(t.Context(), "k", []byte("too large")); err != nil {
		t.Fatal(err)
	}
	if n := nats.Claims(r); n != 0 {
		t.Fatalf("%d claims are renewed", n)
	}
	if got, ok, err := r.Load(t.Context(), "k"); string(got) != "too large" || !ok || err != nil {
		t.Errorf("got %q, %v, %v", got, ok, err)
	}
}

// TestResultOfAMegabyte: a call that is made again does not repeat the effect.
func TestResultOfAMegabyte(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir(), Configure: func(o *server.Options) { o.MaxPayload = 1 << 20 }})
	bus := connect(t, b, nats.Options{})
	var effects atomic.Int64
	serve(t, bus, "big", func(context.Context, *relay.Request) ([]byte, error) {
		effects.Add(1)
		return make([]byte, 1<<20), nil
	}, relay.ServeOptions{Results: resultsOf(t, bus, nats.ResultsOptions{})})
	c := caller(t, bus)
	if got, err := c.Do(t.Context(), keyed("big", "1")); err != nil || len(got.Body) != 1<<20 {
		t.Errorf("the first call: %v", err)
	}
	for range 2 {
		_, err := c.Do(t.Context(), keyed("big", "1"))
		if remote := new(relay.RemoteError); !errors.As(err, &remote) || remote.Code != "too-large" {
			t.Errorf("a call that is made again: %v", err)
		}
	}
	if n := effects.Load(); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// TestClaimThatIsTaken ends the context of the handler, and its reply does not replace that of
// the other worker.
func TestClaimThatIsTaken(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	bus := connect(t, b, nats.Options{})
	r := resultsOf(t, bus, nats.ResultsOptions{Bucket: "taken", Lease: time.Second})
	fence := make(chan uint64, 1)
	serve(t, bus, "pay", func(ctx context.Context, r *relay.Request) ([]byte, error) {
		fence <- r.Fence()
		<-ctx.Done()
		return []byte("late"), nil
	}, relay.ServeOptions{Results: r})
	c := caller(t, bus)
	failed := make(chan error)
	go func() {
		_, err := c.Do(t.Context(), keyed("pay", "1"))
		failed <- err
	}()
	first := <-fence
	bucket, err := jetStream(t, b).KeyValue(t.Context(), "taken")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := bucket.Keys(t.Context())
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	second, err := bucket.PutString(t.Context(), keys[0], "cof another worker")
	if err != nil || second <= first {
		t.Errorf("fences %d and %d, %v", first, second, err)
	}
	err = <-failed
	if remote := new(relay.RemoteError); !errors.As(err, &remote) || remote.Code != "lost-claim" {
		t.Errorf("the call: %v", err)
	}
	if e, err := bucket.Get(t.Context(), keys[0]); err != nil || string(e.Value()) != "cof another worker" {
		t.Errorf("the key has %q, %v", e.Value(), err)
	}
}

// TestClaimOfAWorkerThatIsCutOff is lost when the lease has passed, and another worker takes it.
// When the first one is back, its reply is not stored.
func TestClaimOfAWorkerThatIsCutOff(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	f := new(freezer)
	bus := connect(t, b, nats.Options{ErrorLog: new(text).logger(), NATS: []client.Option{watchful, client.SetCustomDialer(f)}})
	cut := resultsOf(t, bus, nats.ResultsOptions{Lease: 500 * time.Millisecond})
	other := resultsOf(t, connect(t, b, nats.Options{}), nats.ResultsOptions{Lease: time.Hour})
	if _, ok, err := cut.Load(t.Context(), "k"); ok || err != nil {
		t.Fatalf("got %v, %v", ok, err)
	}
	lost := make(chan bool)
	first := cut.(relay.Claimer).Claimed("k", func() { close(lost) })
	f.frozen.Store(true)
	<-lost
	takesOver(t, other)
	if second := other.(relay.Claimer).Claimed("k", func() {}); second <= first {
		t.Errorf("fences %d and %d", first, second)
	}
	f.frozen.Store(false)
	until.Holds(t, func() bool { return bus.Ready() == nil })
	if err := cut.Store(t.Context(), "k", []byte("late")); !errors.Is(err, relay.ErrLostClaim) {
		t.Errorf("Store: %v", err)
	}
	if err := other.Store(t.Context(), "k", []byte("reply")); err != nil {
		t.Error(err)
	}
	if got, ok, err := cut.Load(t.Context(), "k"); string(got) != "reply" || !ok || err != nil {
		t.Errorf("got %q, %v, %v", got, ok, err)
	}
}

func TestResultsWithoutJetStream(t *testing.T) {
	bus := connect(t, start(t, broker.Options{}), nats.Options{})
	_, err := bus.Results(t.Context(), nats.ResultsOptions{})
	if err == nil || !strings.Contains(err.Error(), "the server has no JetStream") {
		t.Error(err)
	}
}

// TestResultsOfATaskThatIsCanceled: the effect has happened, so its reply is kept; and a
// claim is given back.
func TestResultsOfATaskThatIsCanceled(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	r := resultsOf(t, connect(t, b, nats.Options{}), nats.ResultsOptions{Lease: time.Hour})
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(ctx context.Context, sc *spindle.Scope) error {
			for _, key := range []string{"kept", "released"} {
				if _, ok, err := r.Load(ctx, key); ok || err != nil {
					t.Errorf("%s: %v, %v", key, ok, err)
				}
			}
			sc.Cancel(nil)
			r.(relay.Claimer).Release(ctx, "released")
			return r.Store(ctx, "kept", []byte("reply"))
		})
	})
	if err != nil {
		t.Error(err)
	}
	if body, ok, err := r.Load(t.Context(), "kept"); string(body) != "reply" || !ok || err != nil {
		t.Errorf("kept: %q, %v, %v", body, ok, err)
	}
	if _, ok, err := r.Load(t.Context(), "released"); ok || err != nil {
		t.Errorf("released: %v, %v", ok, err)
	}
}
