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
	delete(r.seen, key)
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
	return c.put(ctx, r, key, c.value)
}

// replace writes a reply in place of a claim, unless another worker has the key.
func (c *claim) replace(ctx context.Context, r *results, key string, reply []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := error(relay.ErrLostClaim)
	if !c.lost {
		err = c.put(ctx, r, key, reply)
	}
	if err != nil {
		return fmt.Errorf("relay/nats: results: %w", err)
	}
	return nil
}

// put writes a value in place of a claim. It fails with relay.ErrLostClaim if the key has the value
// of another worker, or was deleted. The caller holds c.mu.
//
// That the server has another revision does not mean that another worker has the key. The
// confirmation of an earlier write of this claim may have been lost. And a server of a cluster
// confirms a write before it accepts the next one of the same key. So put looks, and tries again.
func (c *claim) put(ctx context.Context, r *results, key string, value []byte) error {
	var missing absence
	for {
		var revision uint64
		err := r.retry(ctx, func(ctx context.Context) (err error) {
			revision, err = r.kv.Update(ctx, keyName(key), value, c.revision)
			return err
		})
		if err == nil {
			c.revision = revision
		}
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return err
		}
		e, getErr := r.get(ctx, keyName(key))
		if missing.lasts(getErr) {
			return relay.ErrLostClaim
		}
		if getErr == nil && e.Revision() > c.revision { // otherwise a server that is behind may have answered
			if !bytes.Equal(e.Value(), value) && !bytes.Equal(e.Value(), c.value) {
				return relay.ErrLostClaim
			}
			c.revision = e.Revision()
			if bytes.Equal(e.Value(), value) {
				return nil
			}
		}
		if pause(ctx, conflictPause) != nil {
			return err
		}
	}
}

// remove deletes a key if it has the value of a claim. Revision is that of the claim, or 0 if it is
// not known. It fails if another write of the key is on its way for as long as ctx lasts.
func (r *results) remove(ctx context.Context, name string, claim []byte, revision uint64) error {
	var missing absence
	for {
		err := error(jetstream.ErrKeyRevisionMismatch)
		if revision > 0 {
			err = r.retry(ctx, func(ctx context.Context) error {
				return r.kv.Delete(ctx, name, jetstream.LastRevision(revision))
			})
		}
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return err
		}
		e, getErr := r.get(ctx, name)
		switch {
		case revision == 0 && getErr != nil:
			return getErr // it was not written
		case missing.lasts(getErr):
			return nil
		case getErr == nil && e.Revision() > revision:
			if !bytes.Equal(e.Value(), claim) {
				return nil
			}
			revision = e.Revision()
		case pause(ctx, conflictPause) != nil:
			return err
		}
	}
}

// absence is how long a key has not been found. A server that is behind may not find a key for a
// moment.
type absence struct{ since time.Time }

// lasts notes the error of a read, and reports whether the key has been deleted.
func (a *absence) lasts(err error) bool {
	switch {
	case !errors.Is(err, jetstream.ErrKeyNotFound):
		a.since = time.Time{}
	case a.since.IsZero():
		a.since = time.Now()
	}
	return !a.since.IsZero() && time.Since(a.since) >= time.Second
}

// conflictPause is the wait before a key that another write has changed is looked at again.
const conflictPause = 20 * time.Millisecond

// drop ends the renewal of a claim, and returns its value and revision. It waits for a renewal
// that runs.
func (r *results) drop(key string) (value []byte, revision uint64, held bool) {
	r.mu.Lock()
	c, held := r.claims[key]
	delete(r.claims, key)
	r.mu.Unlock()
	if !held {
		return nil, 0, false
	}
	c.timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	return c.value, c.revision, !c.lost
}
