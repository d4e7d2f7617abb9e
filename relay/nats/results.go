package nats

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
)

// ResultsOptions configures Bus.Results.
type ResultsOptions struct {
	// Bucket is the name of the key-value bucket. It is created, or changed to fit. ""
	// means "SPINDLE_RESULTS".
	Bucket string

	// Keep is how long replies are kept. Zero means a day.
	Keep time.Duration

	// Replicas is how many servers of a cluster keep each reply. Zero means 1.
	Replicas int

	// Lease is how long a key is kept for a worker that has started a request and is not
	// heard of again. Workers that run renew it, however long their handlers take. Zero
	// means a minute.
	Lease time.Duration
}

// Results returns a store of replies for ServeOptions.Results that all workers of a cluster
// share. It is a key-value bucket of JetStream.
//
// Load claims a key that has no reply, for the worker that is about to handle the request.
// The Load of another worker waits for its reply, so two workers do not handle requests with
// the same key at the same time. If the worker is gone, its claim ends with the lease. A worker
// that lives, but was paused or cut off for longer than the lease, loses its claim: its handler's
// context ends, and its reply is not stored. Until it notices, two handlers may run; see
// relay.Request.Fence. A reply that is larger than the server's messages is not kept, but a
// request that is sent again fails with the code "too-large" instead of repeating the effect.
//
// While the servers are not reachable, Load and Store try again: an effect without a stored
// reply would be repeated.
func (b *Bus) Results(ctx context.Context, o ResultsOptions) (relay.Results, error) {
	if o.Bucket == "" {
		o.Bucket = "SPINDLE_RESULTS"
	}
	if o.Keep == 0 {
		o.Keep = 24 * time.Hour
	}
	if o.Lease == 0 {
		o.Lease = time.Minute
	}
	r := &results{b: b, lease: o.Lease, claims: map[string]*claim{}, seen: map[string]sighting{}}
	err := blocking(ctx, func() error {
		return provision(ctx, func(ctx context.Context) (err error) {
			r.kv, err = b.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
				Bucket: o.Bucket, TTL: o.Keep, Replicas: o.Replicas, Description: "replies of relay by idempotency key",
			})
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("relay/nats: bucket %s: %w", o.Bucket, unprovided(cmp.Or(ended(ctx), err)))
	}
	return r, nil
}

// results is the relay.Results of a bucket. The value of a key is a claim or a reply; the
// first byte says which.
type results struct {
	b     *Bus
	kv    jetstream.KeyValue
	lease time.Duration

	mu     sync.Mutex
	claims map[string]*claim   // that this store holds, by key; guarded by mu
	seen   map[string]sighting // claims of other workers, by key; guarded by mu
}

// sighting is when a store has first seen the revision of a claim.
type sighting struct {
	revision uint64
	at       time.Time
}

// mostSeen is how many sightings a store keeps.
const mostSeen = 10_000

// hasEnded reports whether the claim of another worker was not renewed for a lease. The time counts
// from the first Load that has seen it: each may have less time than the lease.
func (r *results) hasEnded(key string, revision uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.seen[key]; ok && s.revision == revision {
		return time.Since(s.at) > r.lease
	}
	if len(r.seen) == mostSeen {
		for other := range r.seen { // any of them: its lease counts from its next Load
			delete(r.seen, other)
			break
		}
	}
	r.seen[key] = sighting{revision, time.Now()}
	return false
}

// forget removes the sighting of a key that has a reply, or is this store's.
func (r *results) forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, key)
}

const (
	isClaim = 'c'
	isReply = 'r'
)

// Load returns the reply that is kept for a key. If there is none, it claims the key.
func (r *results) Load(ctx context.Context, key string) (body []byte, ok bool, err error) {
	err = blocking(ctx, func() (err error) {
		body, ok, err = r.load(ctx, key)
		return err
	})
	return body, ok, err
}

func (r *results) load(ctx context.Context, key string) ([]byte, bool, error) {
	name := keyName(key)
	mine := append([]byte{isClaim}, rand.Text()...)
	tried := false // to take the claim of a worker that is gone
	for {
		began := time.Now()
		revision, err := r.create(ctx, name, mine)
		if err == nil {
			r.hold(key, mine, revision, began)
			return nil, false, nil
		} else if !errors.Is(err, jetstream.ErrKeyExists) {
			r.abandon(name, mine)
			return nil, false, err
		}
		e, err := r.get(ctx, name)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound): // released
		case err != nil:
			r.abandon(name, mine)
			return nil, false, err
		case len(e.Value()) > 0 && e.Value()[0] == isReply:
			r.forget(key)
			return e.Value()[1:], true, nil
		case bytes.Equal(e.Value(), mine):
			r.hold(key, mine, e.Revision(), began)
			return nil, false, nil
		case r.hasEnded(key, e.Revision()):
			tried, began = true, time.Now()
			if revision, err := r.kv.Update(ctx, name, mine, e.Revision()); err == nil {
				r.hold(key, mine, revision, began)
				return nil, false, nil
			} // otherwise it has changed, or is tried again
		}
		if err := pause(ctx, conflictPause); err != nil {
			if tried {
				r.abandon(name, mine)
			}
			return nil, false, err
		}
	}
}

// abandon deletes a claim that Load may have written although it has failed: a confirmation may
// have been lost. If this fails too, the claim ends with the lease.
func (r *results) abandon(name string, claim []byte) {
	r.b.background(func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		_ = r.remove(ctx, name, claim, 0)
	})
}

// Store keeps a reply. It does not end with ctx: the effect of the request has happened. If it
// fails, the claim ends with the lease, unless the reply is too large: then another one can be
// stored.
func (r *results) Store(ctx context.Context, key string, body []byte) error {
	return shielded(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, r.lease)
		defer cancel()
		value := append([]byte{isReply}, body...)
		c := r.claimOf(key)
		if c == nil {
			return r.retry(ctx, func(ctx context.Context) error {
				_, err := r.kv.Put(ctx, keyName(key), value)
				return err
			})
		}
		err := c.replace(ctx, r, key, value)
		if !errors.Is(err, relay.ErrTooLarge) {
			r.drop(key)
		}
		return err
	})
}

// Release ends the claim of a request that has failed.
func (r *results) Release(ctx context.Context, key string) {
	_ = shielded(ctx, func(ctx context.Context) error { // if this fails, the claim ends with the lease
		claim, revision, held := r.drop(key)
		if !held {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, flushTimeout)
		defer cancel()
		return r.remove(ctx, keyName(key), claim, revision)
	})
}

// shielded is blocking for what must be done even if ctx has ended.
func shielded(ctx context.Context, fn func(ctx context.Context) error) error {
	run := func(ctx context.Context) error {
		return blocking(ctx, func() error { return fn(context.WithoutCancel(ctx)) })
	}
	if spindle.Current(ctx) == nil {
		return run(ctx)
	}
	return spindle.Shield(ctx, run)
}

func (r *results) create(ctx context.Context, name string, value []byte) (revision uint64, err error) {
	err = r.retry(ctx, func(ctx context.Context) (err error) {
		revision, err = r.kv.Create(ctx, name, value)
		// A replicated bucket says this if another write of a key that was deleted is on its way.
		if api := (*jetstream.APIError)(nil); errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant {
			err = jetstream.ErrKeyExists
		}
		return err
	})
	return revision, err
}

func (r *results) get(ctx context.Context, name string) (e jetstream.KeyValueEntry, err error) {
	err = r.retry(ctx, func(ctx context.Context) (err error) {
		e, err = r.kv.Get(ctx, name)
		return err
	})
	return e, err
}

// retry calls fn until it has reached a server, or ctx ends.
func (r *results) retry(ctx context.Context, fn func(ctx context.Context) error) error {
	for {
		limited, cancel := context.WithTimeout(ctx, flushTimeout)
		err := fn(limited)
		cancel()
		if !isUnreachable(err) {
			return translated(err)
		}
		if ended := pause(ctx, 50*time.Millisecond); ended != nil {
			return fmt.Errorf("relay/nats: results: %w: %w", relay.ErrDown, err)
		}
	}
}

// isUnreachable reports whether an error means that no server has answered.
func isUnreachable(err error) bool {
	return errors.Is(translated(err), relay.ErrDown) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// pause waits, or fails when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// keyName returns the name of a key in a bucket, where few characters are allowed.
func keyName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
