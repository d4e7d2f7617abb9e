package relay

import (
	"context"
	"sync"
)

// Results keeps the replies of requests with an IdempotencyKey, so that a request that is
// sent or delivered again is answered without being handled again. Implementations for
// several machines share their store. A reply is encoded with its headers, and with the items of
// a stream; implementations need not look into it. The key of a reply is the subject, a space and the
// IdempotencyKey of the request. The key alone decides: every client that sends it gets the
// reply. So keys must be unique among all clients, and hard to guess where clients must not
// see each other's replies. Methods may be called from any goroutine; with
// ServeOptions.InTasks they must not block.
type Results interface {
	// Load returns the reply that is kept for a key.
	Load(ctx context.Context, key string) (reply []byte, ok bool, err error)

	// Store keeps a reply. It fails with an error that wraps ErrTooLarge if the reply can
	// never be kept, and with one that wraps ErrLostClaim if another worker has the key.
	Store(ctx context.Context, key string, reply []byte) error
}

// Claimer is implemented by Results that reserve a key when Load finds nothing, so that no other
// worker handles a request with the key at the same time. They may lose the reservation to
// another worker when this one was not heard of for too long.
type Claimer interface {
	// Claimed is called after Load has reserved a key. It returns the fencing token of the
	// reservation: a number that is larger than those of all earlier ones of the key. It
	// calls lost, on any goroutine, if the reservation is lost before Store or Release.
	Claimed(key string, lost func()) (fence uint64)

	// Release ends the reservation of a key. It is called instead of Store when the
	// handler has failed.
	Release(ctx context.Context, key string)
}

// NewResults returns Results in memory, for up to most replies. The oldest goes first.
func NewResults(most int) Results {
	if most < 1 {
		panic("relay: NewResults with a limit below 1")
	}
	return &results{most: most, kept: map[string][]byte{}}
}

type results struct {
	most int

	mu    sync.Mutex
	kept  map[string][]byte // guarded by mu
	order []string          // oldest first; guarded by mu
}

func (r *results) Load(_ context.Context, key string) ([]byte, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reply, ok := r.kept[key]
	return reply, ok, nil
}

func (r *results) Store(_ context.Context, key string, reply []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.kept[key]; !ok {
		if len(r.order) == r.most {
			delete(r.kept, r.order[0])
			r.order = r.order[1:]
		}
		r.order = append(r.order, key)
	}
	r.kept[key] = reply
	return nil
}
