package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/internal/traceparent"
)

// Request is a request that a handler serves.
type Request struct {
	*Envelope
	s   *service
	due time.Time // on this machine's clock; zero for none

	headers map[string]string // of the reply

	settle func(Outcome) // of the delivery; nil if the bus does not redeliver
	sent   uint32        // items; only the handler
	items  *kept         // that were sent, if they are kept; only the handler
	fence  uint64
	key    callKey // in service.running

	// Guarded by s.mu.
	allowed uint32         // items that the caller accepts in all
	credit  *onloop.Parker // the handler waits for credit
	gone    bool           // the caller has cancelled the call
}

// running is a request with its handler's context.
type running interface {
	request() *Request
	stop() // ends the context; from any goroutine
}

func (r *Request) request() *Request { return r }

// SetHeader sets a header of the reply.
func (r *Request) SetHeader(key, value string) {
	if r.headers == nil {
		r.headers = map[string]string{}
	}
	r.headers[key] = value
}

// callKey identifies a call among all callers. With a token it needs no reply subject: on some
// buses that of a request has more parts than that of its cancellation.
type callKey struct {
	replyTo   string // "" if there is a token
	id, token uint64
}

// keyOf returns the key of a request, or of a message about one.
func keyOf(e *Envelope) callKey {
	if e.Token != 0 {
		return callKey{"", e.ID, e.Token}
	}
	return callKey{e.ReplyTo, e.ID, 0}
}

// Handler serves one request. Its context ends when the caller cancels the call or is gone,
// at the call's deadline, and when the worker is stopped. The result is the reply; an error
// is the caller's *RemoteError. A handler of a stream calls Request.Send for each item, and
// its result is the last item unless it is empty.
type Handler func(ctx context.Context, r *Request) ([]byte, error)

// ErrNotStream is the error of Send when the caller waits for one reply.
var ErrNotStream = errors.New("relay: Send: the caller waits for a single reply")

// invocation is the context of a handler on a goroutine. It costs little unless the handler
// waits for its end: only then there is a channel and a timer.
type invocation struct {
	Request

	mu  sync.Mutex
	err error     // set at the end, unless there is std
	std *standard // nil until it is needed
}

// standard is a context of package context.
type standard struct {
	context.Context
	cancel context.CancelFunc
}

// Deadline returns the deadline of the call.
func (v *invocation) Deadline() (time.Time, bool) { return v.due, !v.due.IsZero() }

// Done returns a channel that is closed when the call ends.
func (v *invocation) Done() <-chan struct{} { return v.standard().Done() }

// Err returns nil until the call ends.
func (v *invocation) Err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.std != nil:
		return v.std.Err()
	case v.err == nil && v.late():
		v.err = context.DeadlineExceeded
	}
	return v.err
}

// Value looks key up. The context package finds the standard context by a private key, an
// *int, so that contexts derived from this one need no goroutine.
func (v *invocation) Value(key any) any {
	switch key.(type) {
	case traceparent.Key:
		trace := v.Trace
		return &trace
	case *int:
		return v.standard().Value(key)
	}
	return v.s.values.Value(key)
}

func (v *invocation) standard() context.Context {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.std == nil {
		v.std = &standard{}
		v.std.Context, v.std.cancel = withDeadline(v.s.values, v.due)
		if v.err != nil {
			v.std.cancel()
		}
	}
	return v.std
}

// stop ends the context.
func (v *invocation) stop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.std != nil {
		v.std.cancel()
	} else if v.err == nil {
		v.err = context.Canceled
	}
}
