package spindle

import (
	"context"
	"sync"
	"time"
)

// A Scope is a context.Context, and the standard library's functions work on it
// as on one of its own. Two of its customs matter: a context with an AfterFunc
// method is linked to derived contexts without a goroutine, and context.Cause
// asks Value for a private key, an *int. That key, and no other, is answered by
// a standard context that carries the cause.

// outside is what a scope is to contexts and goroutines outside the loop. Any
// goroutine; what it holds is made when first asked for.
type outside struct {
	mu       sync.Mutex
	ended    bool
	done     chan struct{}
	cause    context.Context // cancelled with the scope's cause
	endCause func(error)     // cancels cause
	after    hooks           // to be called when the scope is cancelled
}

// end is called on the loop when the scope is cancelled; blamed is by whom.
func (o *outside) end(blamed *Scope) {
	o.mu.Lock()
	if o.ended {
		o.mu.Unlock()
		return
	}
	o.ended = true
	if o.done != nil {
		close(o.done)
	}
	if o.endCause != nil {
		o.endCause(blamed.canceled.Cause)
	}
	after := o.after.take()
	o.mu.Unlock()
	for _, h := range after {
		h.fn()
	}
}

// Done is closed when the scope is cancelled, by itself or from outside, or has
// ended.
func (sc *Scope) Done() <-chan struct{} {
	o := &sc.outside
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done == nil {
		o.done = make(chan struct{})
		if o.ended {
			close(o.done)
		}
	}
	return o.done
}

// AfterFunc has f called once the scope is cancelled or has ended; stop takes it
// back, and tells whether it was in time. It is for the context package, which
// calls it in place of starting a goroutine; call context.AfterFunc instead.
func (sc *Scope) AfterFunc(f func()) (stop func() bool) {
	o := &sc.outside
	o.mu.Lock()
	if o.ended {
		o.mu.Unlock()
		f()
		return func() bool { return false }
	}
	defer o.mu.Unlock()
	h := o.after.add(f)
	return func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return h.Cancel()
	}
}

// Err is nil until the scope is cancelled; then it is context.Canceled or
// context.DeadlineExceeded.
func (sc *Scope) Err() error {
	blamed := sc.blame.Load()
	switch {
	case blamed == nil:
		return nil
	case blamed.canceled.late:
		return context.DeadlineExceeded
	}
	return context.Canceled
}

// Value looks a key up in the contexts around.
func (sc *Scope) Value(key any) any {
	switch key.(type) {
	case scopeKey:
		return sc
	case *int:
		if v := sc.causeContext().Value(key); v != nil {
			return v
		}
	}
	return sc.values.Value(key)
}

func (sc *Scope) causeContext() context.Context {
	o := &sc.outside
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause == nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		o.cause, o.endCause = ctx, cancel
		if o.ended {
			cancel(sc.blame.Load().canceled.Cause)
		}
	}
	return o.cause
}

// Deadline is the nearest deadline in force.
func (sc *Scope) Deadline() (time.Time, bool) {
	k := sc.s.l.Kernel()
	nearest, found := time.Time{}, false
	consider := func(when time.Time) {
		if !found || when.Before(nearest) {
			nearest, found = when, true
		}
	}
	for at := sc; at != nil; at = at.parent {
		if d := at.deadline.Load(); d != noDeadline {
			consider(k.Wall().Add(time.Duration(d) - k.Mono()))
		}
		if at.shielded.Load() {
			return nearest, found
		}
		if at.parent == nil {
			if when, ok := at.values.Deadline(); ok {
				consider(when)
			}
		}
	}
	return nearest, found
}
