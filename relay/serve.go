package relay

import (
	"context"
	"sync"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/intask"
	"github.com/spindleloop/spindle/internal/traceparent"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/tracing"
)

// serveOnGoroutines serves with a goroutine for each handler. The goroutines are reused.
func (s *service) serveOnGoroutines(ctx context.Context) error {
	if s.clock.l != nil && spindle.Current(ctx) != nil && !s.clock.l.Internal().Kernel().Real() {
		panic("relay: handlers run on goroutines, which a simulated run cannot have; set ServeOptions.InTasks")
	}
	s.spawn = func() { go s.pullOnGoroutine() }
	return s.run(ctx)
}

// pullOnGoroutine is a puller. If a handler ends its goroutine by Goexit, another one takes
// its place.
func (s *service) pullOnGoroutine() {
	returned := false
	defer func() {
		if !returned {
			s.spawn()
		}
	}()
	s.pull(context.Background(), s.serveOnGoroutine)
	returned = true
}

func (s *service) serveOnGoroutine(d Delivery) {
	v := &invocation{Request: Request{Envelope: d.Envelope, s: s, settle: d.Settle}}
	v.scope = v
	ok, o := s.admit(&v.Request)
	if d.Settle != nil {
		defer func() { d.Settle(o) }()
	}
	if ok {
		defer v.stop()
		s.perform(v, &v.Request, &o)
	}
}

// invocation is the context of a handler on a goroutine. It costs little unless the handler
// waits for its end: only then are there a channel and a timer.
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

// serveInTasks serves with a task for each handler. The tasks are shielded from the end of
// ctx, so that they can drain. Run waits twice for them.
func (s *service) serveInTasks(ctx context.Context) error {
	return intask.Shield(ctx, 2*s.o.Drain, func(shielded context.Context) error {
		return spindle.WithNursery(shielded, func(_ context.Context, n *spindle.Nursery) error {
			s.spawn = func() {
				n.GoWith(spindle.TaskOptions{Name: "relay worker " + s.subject}, func(ctx context.Context) error {
					s.pull(ctx, func(d Delivery) { s.serveInTask(ctx, d) })
					return nil
				})
			}
			return s.run(ctx)
		})
	})
}

// taskScope is the scope of a handler in a task of l.
type taskScope struct {
	*spindle.Scope
	l *loop.Loop
}

// stop cancels the scope, from any goroutine.
func (t *taskScope) stop() {
	if t.l.Owns() {
		t.Cancel(nil)
		return
	}
	_ = t.l.Internal().Post(atclose.Drop, func() { t.Cancel(nil) }) // Close ends all tasks
}

func (s *service) serveInTask(ctx context.Context, d Delivery) {
	_ = spindle.WithScope(ctx, func(ctx context.Context, sc *spindle.Scope) error {
		r := &Request{Envelope: d.Envelope, s: s, settle: d.Settle, scope: &taskScope{sc, spindle.LoopOf(ctx)}}
		ok, o := s.admit(r)
		if d.Settle != nil {
			defer func() { d.Settle(o) }()
		}
		if ok {
			if !r.due.IsZero() {
				sc.SetDeadline(r.due)
			}
			s.perform(tracing.With(ctx, r.Trace), r, &o)
		}
		return nil
	})
}
