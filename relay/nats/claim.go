package nats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spindleloop/spindle/relay"
)

// claim is the value of a key while its request is handled. It is unique, so that it is
// recognized if its confirmation was lost.
type claim struct {
	value []byte
	fence uint64      // the revision when the key was claimed
	timer *time.Timer // renews the claim

	mu       sync.Mutex
	revision uint64    // guarded by mu, as all below
	renewed  time.Time // before the last request to renew the claim that was confirmed
	ended    bool      // by drop
	lost     bool      // another worker may have the key
	onLost   func()
}

// hold notes that this store has claimed a key since a time, and renews the claim until drop.
func (r *results) hold(key string, value []byte, revision uint64, since time.Time) {
	c := &claim{value: value, fence: revision, revision: revision, renewed: since}
	c.mu.Lock()
	c.timer = time.AfterFunc(r.lease/3, func() { r.renew(key, c) })
	c.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims[key] = c
}

func (r *results) claimOf(key string) *claim {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.claims[key]
}

// Claimed returns the fencing token of a claim, and makes lost be called if it is lost.
func (r *results) Claimed(key string, lost func()) (fence uint64) {
	c := r.claimOf(key)
	if c == nil {
		return 0
	}
	c.mu.Lock()
	c.onLost = lost
	already := c.lost
	c.mu.Unlock()
	if already {
		lost()
	}
	return c.fence
}

// renew writes a claim again. Stores that wait for its key see another revision, and count
// the lease from then. If no server answers, the next renewal may succeed, until the lease has
// passed: then another worker may have the key.
func (r *results) renew(key string, c *claim) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	began := time.Now()
	err := c.write(r, key)
	if err == nil {
		c.renewed = began
	}
	left := r.lease - time.Since(c.renewed)
	var lost func()
	if errors.Is(err, relay.ErrLostClaim) || left <= 0 {
		c.lost, lost = true, c.onLost
	} else {
		c.timer.Reset(min(r.lease/3, left))
	}
	c.mu.Unlock()
	if lost != nil {
		lost()
	}
}

// write writes the value of a claim again. The caller holds c.mu.
func (c *claim) write(r *results, key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.lease/3)
	defer cancel()
	revision, err := r.kv.Update(ctx, keyName(key), c.value, c.revision)
	if err == nil {
		c.revision = revision
		return nil
	}
	return c.confirm(ctx, r, key, c.value, err)
}

// confirm finds out what became of a write that has failed: the confirmation may have been lost.
// It returns nil if the key has the value, and relay.ErrLostClaim if it has that of another
// worker. The caller holds c.mu.
func (c *claim) confirm(ctx context.Context, r *results, key string, value []byte, err error) error {
	e, getErr := r.kv.Get(ctx, keyName(key))
	switch {
	case errors.Is(getErr, jetstream.ErrKeyNotFound):
		return relay.ErrLostClaim
	case getErr != nil:
		return err
	case bytes.Equal(e.Value(), value):
		c.revision = e.Revision()
		return nil
	case bytes.Equal(e.Value(), c.value):
		c.revision = e.Revision()
		return err
	}
	return relay.ErrLostClaim
}

// replace writes a reply in place of a claim, unless another worker has the key.
func (c *claim) replace(ctx context.Context, r *results, key string, reply []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := error(relay.ErrLostClaim)
	for !c.lost {
		var revision uint64
		err = r.retry(ctx, func(ctx context.Context) (err error) {
			revision, err = r.kv.Update(ctx, keyName(key), reply, c.revision)
			return err
		})
		before := c.revision
		if err != nil && !errors.Is(err, relay.ErrTooLarge) {
			err = c.confirm(ctx, r, key, reply, err)
		} else if err == nil {
			c.revision = revision
		}
		if err == nil || errors.Is(err, relay.ErrLostClaim) || c.revision == before {
			break // otherwise the confirmation of a renewal was lost, and the next one succeeds
		}
	}
	if err != nil {
		return fmt.Errorf("relay/nats: results: %w", err)
	}
	return nil
}

// drop ends the renewal of a claim, and returns its revision. It waits for a renewal that
// runs.
func (r *results) drop(key string) (revision uint64, held bool) {
	r.mu.Lock()
	c, held := r.claims[key]
	delete(r.claims, key)
	r.mu.Unlock()
	if !held {
		return 0, false
	}
	c.timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	return c.revision, !c.lost
}
