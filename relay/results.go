package relay

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
// worker handles a request with the key at the same time. Another worker may
// take the reservation over if this one has not been heard from for too long.
type Claimer interface {
	// Claimed is called after Load has reserved a key. It returns the fencing token of the
	// reservation: a number that is larger than those of all earlier ones of the key. It
	// calls lost, on any goroutine, if the reservation is lost before Store or Release.
	Claimed(key string, lost func()) (fence uint64)

	// Release ends the reservation of a key. It is called instead of Store when the
	// handler has failed.
	Release(ctx context.Context, key string)
}

// NewResults returns Results in memory that keep at most capacity replies. When they are full, a
// new reply replaces the oldest one, and a request with its key is handled again. Workers of one
// process can share them; for workers in several processes, use Results of a store that they share.
// NewResults panics if capacity is below 1.
func NewResults(capacity int) Results {
	if capacity < 1 {
		panic("relay: NewResults with a capacity below 1")
	}
	return &results{capacity: capacity, kept: map[string][]byte{}}
}

type results struct {
	capacity int

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
		if len(r.order) == r.capacity {
			delete(r.kept, r.order[0])
			r.order = r.order[1:]
		}
		r.order = append(r.order, key)
	}
	r.kept[key] = reply
	return nil
}

// handleOnce calls the handler of a request with an IdempotencyKey, unless the reply is known.
func (s *service) handleOnce(ctx context.Context, r *Request, key string) (body []byte, err error) {
	if !s.claim(key) {
		return nil, errTwice
	}
	defer s.unclaim(key)
	kept, ok, err := s.o.Results.Load(ctx, key)
	if err != nil {
		return nil, err
	}
	if ok {
		s.mu.Lock()
		s.stats.Replayed++
		s.mu.Unlock()
		return r.replay(ctx, kept)
	}
	return s.handleFirst(ctx, r, key)
}

// handleFirst calls the handler of a request that this worker has claimed, and keeps the reply.
func (s *service) handleFirst(ctx context.Context, r *Request, key string) (body []byte, err error) {
	ended := false // otherwise the handler has failed, and its key is released
	var lost atomic.Bool
	if c, ok := s.o.Results.(Claimer); ok {
		defer func() {
			if !ended {
				c.Release(ctx, key)
			}
		}()
		r.fence = c.Claimed(key, func() {
			lost.Store(true)
			r.scope.stop()
		})
	}
	if r.Seq > 0 {
		r.items = &kept{}
	}
	body, err = s.h(ctx, r)
	if lost.Load() {
		ended = true
		return nil, errLost
	}
	if err != nil {
		return nil, err
	}
	ended = true
	if err := s.keep(ctx, key, r, body); err != nil {
		return nil, err
	}
	return body, nil
}

// keep stores the items and the reply of a request. If they cannot be stored, it stores that they
// cannot: otherwise a request that is sent again would repeat the effect.
func (s *service) keep(ctx context.Context, key string, r *Request, body []byte) error {
	all := r.items
	if all == nil {
		all = &kept{}
	}
	all.Headers, all.Body = r.headers, body
	err := error(ErrTooLarge)
	if all.grow(body) {
		err = s.o.Results.Store(ctx, key, all.encode())
	}
	if errors.Is(err, ErrTooLarge) {
		all = &kept{Failure: "the request was handled, but its reply is too large to be kept"}
		err = s.o.Results.Store(ctx, key, all.encode())
	}
	if errors.Is(err, ErrLostClaim) {
		return errLost
	}
	return err
}

// kept is a reply as Results keep it.
type kept struct {
	Items   [][]byte // of a stream
	Headers map[string]string
	Body    []byte
	Failure string // why there is none of them; with the code "too-large"

	size int // of the items and the body
}

// mostKept limits what a worker collects of a stream.
const mostKept = 16 << 20

// grow counts an item or a body, and reports whether all still fit.
func (k *kept) grow(by []byte) bool {
	k.size += len(by)
	return k.size <= mostKept
}

func (k *kept) add(item []byte) {
	if k.grow(item) {
		k.Items = append(k.Items, item)
	}
}

func (k *kept) encode() []byte {
	var b bytes.Buffer
	_ = gob.NewEncoder(&b).Encode(k) // of these types it does not fail
	return b.Bytes()
}

// replay answers with what was kept. It sends the items again, and returns the body of the reply.
func (r *Request) replay(ctx context.Context, stored []byte) ([]byte, error) {
	var k kept
	if err := gob.NewDecoder(bytes.NewReader(stored)).Decode(&k); err != nil {
		return nil, fmt.Errorf("relay: a kept reply: %w", err)
	}
	switch {
	case k.Failure != "":
		return nil, &codedError{codeTooLarge, k.Failure}
	case len(k.Items) > 0 && r.Seq == 0:
		return nil, &codedError{codeError, "the reply that is kept for the idempotency key is a stream"}
	}
	for _, item := range k.Items {
		if err := r.Send(ctx, item); err != nil {
			return nil, err
		}
	}
	r.headers = k.Headers
	return k.Body, nil
}

// Fence returns the fencing token of a request with an IdempotencyKey. It is larger than the
// tokens of workers that have had a request with the key before, and 0 if the Results have none.
//
// A worker may lose its claim to a key, because it was paused or cut off for longer than the
// lease. Its handler's context then ends, but an effect that is on its way cannot be recalled. A
// handler that must exclude this passes the token on, and the store that has the effect refuses
// a token that is smaller than one that it has seen for the key.
func (r *Request) Fence() uint64 { return r.fence }

// codedError is an error that the caller gets with a code of its own.
type codedError struct{ code, message string }

func (e *codedError) Error() string { return e.message }

// errLost is the error of a request that another worker has taken over. If the bus redelivers, the
// request is delivered again, and answered with the other worker's reply.
var errLost error = &codedError{codeLostClaim, "another worker has the request's idempotency key"}

// errTwice is the error of a request while another one with its key runs.
var errTwice = &RemoteError{Code: codeDuplicate, Message: "a request with the same idempotency key runs"}

// claim reports whether no other request with the key runs.
func (s *service) claim(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys[key] {
		return false
	}
	s.keys[key] = true
	return true
}

func (s *service) unclaim(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, key)
}
