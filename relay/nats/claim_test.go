package nats_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// TestRequestsWithLessTimeThanTheLease: a claim of a worker that is gone ends even if each request
// that waits for it ends before the lease does.
func TestRequestsWithLessTimeThanTheLease(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	o := nats.ResultsOptions{Lease: time.Hour}
	bus := connect(t, b, nats.Options{})
	if _, ok, err := resultsOf(t, bus, o).Load(t.Context(), "k"); ok || err != nil {
		t.Fatalf("got %v, %v", ok, err)
	}
	bus.Close()
	other := resultsOf(t, connect(t, b, nats.Options{}), o)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, _, err := other.Load(ctx, "k")
			ended <- err
		}()
		sighting(t, other)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
	nats.PassLease(other, "k", nats.Sighted(other, "k"))
	if _, ok, err := other.Load(t.Context(), "k"); ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
}

// sighting waits until a store has seen the claim of another one of the key "k", and returns its revision.
func sighting(t *testing.T, r relay.Results) uint64 {
	t.Helper()
	until.Holds(t, func() bool { return nats.Sighted(r, "k") > 0 })
	return nats.Sighted(r, "k")
}

// takesOver makes a store claim the key "k" that another one has claimed and does not renew any more.
func takesOver(t *testing.T, r relay.Results) {
	t.Helper()
	loaded := make(chan string, 1)
	go func() {
		_, ok, err := r.Load(t.Context(), "k")
		loaded <- fmt.Sprint(ok, err)
	}()
	revision := sighting(t, r)
	select {
	case got := <-loaded:
		t.Errorf("before the end of the lease: %s", got)
		return
	default:
	}
	nats.PassLease(r, "k", revision)
	if got := <-loaded; got != "false <nil>" {
		t.Errorf("after the lease: %s", got)
	}
}

// TestClaimThatWasDeleted: it is lost, soon and not at the end of the lease.
func TestClaimThatWasDeleted(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	r := resultsOf(t, connect(t, b, nats.Options{}), nats.ResultsOptions{Lease: time.Hour})
	var bucket jetstream.KeyValue
	nats.WrapBucket(r, func(kv jetstream.KeyValue) jetstream.KeyValue { bucket = kv; return kv })
	for _, key := range []string{"stored", "released"} {
		if _, ok, err := r.Load(t.Context(), key); ok || err != nil {
			t.Fatalf("got %v, %v", ok, err)
		}
		if err := bucket.Delete(t.Context(), nats.KeyName(key)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Store(t.Context(), "stored", []byte("reply")); !errors.Is(err, relay.ErrLostClaim) {
		t.Errorf("Store: %v", err)
	}
	r.(relay.Claimer).Release(t.Context(), "released")
	if n := nats.Claims(r); n != 0 {
		t.Errorf("%d claims are left", n)
	}
}

// busyBucket refuses some writes as a server of a cluster does while an earlier write of the key is
// in process. That server has confirmed the earlier write by then, so a Store that comes at once may
// meet it. It is too rare to wait for.
type busyBucket struct {
	jetstream.KeyValue
	refusals atomic.Int64 // to come
}

func (b *busyBucket) refuse() error {
	if b.refusals.Add(-1) < 0 {
		return nil
	}
	api := &jetstream.APIError{Code: 400, ErrorCode: jetstream.JSErrCodeStreamWrongLastSequenceConstant, Description: "wrong last sequence"}
	return fmt.Errorf("%w: %w", api, jetstream.ErrKeyRevisionMismatch)
}

func (b *busyBucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if err := b.refuse(); err != nil {
		return 0, err
	}
	return b.KeyValue.Update(ctx, key, value, revision)
}

func (b *busyBucket) Delete(ctx context.Context, key string, o ...jetstream.KVDeleteOpt) error {
	if err := b.refuse(); err != nil {
		return err
	}
	return b.KeyValue.Delete(ctx, key, o...)
}

// Create returns the bare error of the server, as the client does for a key that was deleted.
func (b *busyBucket) Create(ctx context.Context, key string, value []byte, o ...jetstream.KVCreateOpt) (uint64, error) {
	var api *jetstream.APIError
	if errors.As(b.refuse(), &api) {
		return 0, api
	}
	return b.KeyValue.Create(ctx, key, value, o...)
}

// TestWriteThatIsRefusedForAMoment is tried again: the key has this worker's claim.
func TestWriteThatIsRefusedForAMoment(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	r := resultsOf(t, connect(t, b, nats.Options{}), nats.ResultsOptions{Lease: time.Hour})
	busy := &busyBucket{}
	nats.WrapBucket(r, func(kv jetstream.KeyValue) jetstream.KeyValue { busy.KeyValue = kv; return busy })
	load := func(key string) (string, bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		reply, ok, err := r.Load(ctx, key)
		if err != nil {
			t.Fatalf("Load: %v", err)
		}
		return string(reply), ok
	}
	load("stored")
	busy.refusals.Store(3)
	if err := r.Store(t.Context(), "stored", []byte("reply")); err != nil {
		t.Errorf("Store: %v", err)
	}
	if reply, ok := load("stored"); !ok || reply != "reply" {
		t.Errorf("after Store: %q, %v", reply, ok)
	}
	load("released")
	busy.refusals.Store(3)
	r.(relay.Claimer).Release(t.Context(), "released")
	if _, ok := load("released"); ok {
		t.Error("the key that was released has a reply")
	}
	busy.refusals.Store(3)
	if _, ok := load("new"); ok {
		t.Error("a key that was never stored has a reply")
	}
}

// TestLoadThatHasFailedKeepsNoClaim: the server has stored the claim, but the request has ended
// before its confirmation has come.
func TestLoadThatHasFailedKeepsNoClaim(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	o := nats.ResultsOptions{Lease: time.Hour}
	cut, other := resultsOf(t, connect(t, b, nats.Options{}), o), resultsOf(t, connect(t, b, nats.Options{}), o)
	ctx, cancel := context.WithCancel(t.Context())
	nats.WrapBucket(cut, func(kv jetstream.KeyValue) jetstream.KeyValue { return &deafBucket{kv, cancel} })
	if _, _, err := cut.Load(ctx, "k"); !errors.Is(err, relay.ErrDown) && !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	limited, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, ok, err := other.Load(limited, "k"); ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
}

// TestTakeoverThatIsLeftBehind: the server has stored the takeover of a claim with a worker that is gone,
// but the request has ended before its confirmation has come.
func TestTakeoverThatIsLeftBehind(t *testing.T) {
	b := start(t, broker.Options{Dir: t.TempDir()})
	gone := connect(t, b, nats.Options{})
	if _, ok, err := resultsOf(t, gone, nats.ResultsOptions{Lease: time.Hour}).Load(t.Context(), "k"); ok || err != nil {
		t.Fatalf("got %v, %v", ok, err)
	}
	gone.Close()
	cut := resultsOf(t, connect(t, b, nats.Options{}), nats.ResultsOptions{Lease: 100 * time.Millisecond})
	other := resultsOf(t, connect(t, b, nats.Options{}), nats.ResultsOptions{Lease: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	nats.WrapBucket(cut, func(kv jetstream.KeyValue) jetstream.KeyValue { return &deafBucket{kv, cancel} })
	if _, _, err := cut.Load(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	limited, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, ok, err := other.Load(limited, "k"); ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
}

// deafBucket loses the confirmation of a write, and ends the request.
type deafBucket struct {
	jetstream.KeyValue
	end func()
}

func (b *deafBucket) Create(ctx context.Context, key string, value []byte, o ...jetstream.KVCreateOpt) (uint64, error) {
	if _, err := b.KeyValue.Create(ctx, key, value, o...); err != nil {
		return 0, err
	}
	b.end()
	return 0, ctx.Err()
}

func (b *deafBucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if _, err := b.KeyValue.Update(ctx, key, value, revision); err != nil {
		return 0, err
	}
	b.end()
	return 0, ctx.Err()
}
