package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"
)

// handle calls the handler, unless the reply to the request is known.
func (s *service) handle(ctx context.Context, v running) (body []byte, err error) {
	r := v.request()
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
		return r.replay(ctx, kept)
	}
	return s.handleOnce(ctx, v, key)
}

// handleOnce calls the handler of a request that this worker has claimed, and keeps the reply.
func (s *service) handleOnce(ctx context.Context, v running, key string) (body []byte, err error) {
	r := v.request()
	ended := false // otherwise the handler has failed, and its key is given back
	defer func() {
		if results, reserves := s.o.Results.(Releaser); reserves && !ended {
			results.Release(ctx, key)
		}
	}()
	var lost atomic.Bool
	if c, ok := s.o.Results.(Claimer); ok {
		r.fence = c.Claimed(key, func() {
			lost.Store(true)
			v.stop()
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
	all.add(&Envelope{Kind: KindReply, Headers: r.headers, Body: body})
	err := error(ErrTooLarge)
	if !all.tooLarge {
		err = s.o.Results.Store(ctx, key, all.frames)
	}
	if errors.Is(err, ErrTooLarge) {
		all = &kept{}
		all.add(NewFailure(&Envelope{}, CodeTooLarge, "the request was handled, but its reply is too large to be kept"))
		err = s.o.Results.Store(ctx, key, all.frames)
	}
	if errors.Is(err, ErrLostClaim) {
		return errLost
	}
	return err
}

// kept is a reply as Results keep it: the frames of the items, and that of the reply.
type kept struct {
	frames   []byte
	tooLarge bool
}

// mostKept limits what a worker collects of a stream.
const mostKept = 16 << 20

func (k *kept) add(e *Envelope) {
	if k.tooLarge {
		return
	}
	frames, err := AppendFrame(k.frames, e, time.Time{})
	if k.frames = frames; err != nil || len(frames) > mostKept {
		k.frames, k.tooLarge = nil, true
	}
}

// replay answers with what was kept. It sends the items again, and returns the body of the reply.
func (r *Request) replay(ctx context.Context, kept []byte) ([]byte, error) {
	for frames := bytes.NewReader(kept); ; {
		e, err := ReadFrame(frames, math.MaxInt)
		switch {
		case err == io.EOF:
			return nil, errors.New("relay: a kept reply has no end")
		case err != nil:
			return nil, fmt.Errorf("relay: a kept reply: %w", err)
		case e.Kind == KindFailure:
			return nil, &codedError{e.Headers[errorCode], string(e.Body)}
		case e.Kind == KindReply:
			r.headers = e.Headers
			return e.Body, nil
		case r.Seq == 0:
			return nil, &codedError{CodeError, "the reply that is kept for the idempotency key is a stream"}
		}
		if err := r.Send(ctx, e.Body); err != nil {
			return nil, err
		}
	}
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
var errLost error = &codedError{CodeLostClaim, "another worker has the request's idempotency key"}

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
