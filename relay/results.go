package relay

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// Results keeps the replies of requests with an IdempotencyKey, so that a request that is
// sent or delivered again is answered without being handled again. Implementations for
// several machines share their store. A reply is a frame with the body and the headers;
// implementations need not look into it. The key of a reply is the subject, a space and the
// IdempotencyKey of the request. The key alone decides: every client that sends it gets the
// reply. So keys must be unique among all clients, and hard to guess where clients must not
// see each other's replies. Methods may be called from any goroutine; with
// ServeOptions.Run InTasks they must not block.
type Results interface {
	// Load returns the reply that is kept for a key.
	Load(ctx context.Context, key string) (reply []byte, ok bool, err error)

	// Store keeps a reply.
	Store(ctx context.Context, key string, reply []byte) error
}

// Releaser is implemented by Results that reserve a key when Load finds nothing, so that no
// other worker handles a request with the key at the same time.
type Releaser interface {
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

// handle calls the handler, unless the reply to the request is known.
func (s *service) handle(ctx context.Context, r *Request) (body []byte, err error) {
	key := r.Headers[IdempotencyKey]
	if s.o.Results == nil || key == "" {
		return s.h(ctx, r)
	}
	key = r.Subject + " " + key
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
		return r.replay(kept)
	}
	succeeded := false
	defer func() {
		if results, reserves := s.o.Results.(Releaser); reserves && !succeeded {
			results.Release(ctx, key)
		}
	}()
	if body, err = s.h(ctx, r); err != nil {
		return nil, err
	}
	reply, err := AppendFrame(nil, &Envelope{Kind: KindReply, Headers: r.headers, Body: body}, time.Time{})
	if err != nil {
		return nil, err
	}
	succeeded = true
	return body, s.o.Results.Store(ctx, key, reply)
}

// replay returns the body of a reply that was kept, and sets its headers.
func (r *Request) replay(kept []byte) ([]byte, error) {
	e, err := ReadFrame(bytes.NewReader(kept), math.MaxInt)
	if err != nil {
		return nil, fmt.Errorf("relay: a kept reply: %w", err)
	}
	r.headers = e.Headers
	return e.Body, nil
}

// errTwice is the error of a request while another one with its key runs.
var errTwice = &RemoteError{Code: CodeDuplicate, Message: "a request with the same idempotency key runs"}

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
