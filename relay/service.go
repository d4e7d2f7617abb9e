package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/tracing"
)

// service is one Serve: pullers take requests from the subscription and call the handler.
// There is one idle puller more than needed, up to the limit.
type service struct {
	bus     Bus
	subject string
	inbox   string // for cancellations and credits of calls that have been answered
	h       Handler
	o       ServeOptions
	clock   clock
	values  context.Context // of Serve
	tracer  tracing.Tracer  // or nil

	sub               Subscription
	control, canceler io.Closer
	ended             *cosync.Inbox[struct{}] // has a value when the last puller has ended
	spawn             func()                  // starts a puller

	returned bool // Serve has returned; guarded by the mutex of the Worker

	idle atomic.Int32 // pullers that wait for a request

	mu      sync.Mutex
	running map[callKey]*Request // guarded by mu, as all below
	unnamed uint64               // requests without a call, so far
	keys    map[string]bool      // idempotency keys of requests that run
	revoked revocations
	pullers int
	failure error // why pullers ended
	stats   WorkerStats
	spent   probe.Durations // by handlers, since metrics are read

	lastError string
}

func newService(ctx context.Context, bus Bus, subject string, h Handler, o ServeOptions) *service {
	return &service{
		bus: bus, subject: subject, inbox: workerPrefix + drawName(seeded(ctx)) + "." + subject, h: h, o: o, clock: clockOf(ctx), values: ctx, tracer: spindle.TracerOf(ctx),
		ended: cosync.NewInbox[struct{}](1), running: map[callKey]*Request{}, keys: map[string]bool{},
	}
}

// open subscribes. Cancellations come first, so that none is missed.
func (s *service) open(ctx context.Context) (err error) {
	if err := CheckSubject(s.subject); err != nil {
		return err
	}
	if s.control, err = s.bus.Listen(ctx, s.inbox, s.receive); err != nil {
		return err
	}
	if s.canceler, err = s.bus.Listen(ctx, cancelSubject(s.subject), s.receive); err != nil {
		return err
	}
	s.sub, err = s.bus.Subscribe(ctx, s.subject, s.o.Group)
	return err
}

func (s *service) close() {
	for _, l := range []io.Closer{s.control, s.canceler} {
		if l != nil {
			l.Close()
		}
	}
	if s.sub != nil {
		s.sub.Close()
	}
}

// run starts the first puller, waits until ctx ends, and drains.
func (s *service) run(ctx context.Context) error {
	s.pullers = 1
	s.spawn()
	_, cause := s.ended.Get(ctx)
	if cause == nil {
		return s.failure
	}
	if err := s.sub.Close(); err != nil {
		cause = errors.Join(cause, err)
	}
	for range 2 {
		late := within(ctx, s.o.Drain, func(ctx context.Context) error {
			_, err := s.ended.Get(ctx)
			return err
		})
		if !late {
			return cause
		}
		s.stopAll()
	}
	return errors.Join(cause, fmt.Errorf("relay: %d handlers of %s did not return after their contexts had ended", s.counts().Running, s.subject))
}

// pull is a puller: it takes requests and serves them with serve.
func (s *service) pull(ctx context.Context, serve func(d Delivery)) {
	for s.waits() {
		d, err := s.sub.Next(ctx)
		if !s.took(err) {
			return
		}
		serve(d)
	}
}

// keepPullers is how many idle pullers a service keeps.
const keepPullers = 64

// waits notes that a puller waits for a request. It reports false if there are enough, and
// the puller ends.
func (s *service) waits() bool {
	if s.joinIdle() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.joinIdle() { // all may have become busy meanwhile, without starting another one
		return true
	}
	s.leave()
	return false
}

// joinIdle adds one to idle, unless there are enough. Idle is never more than the pullers
// that wait: took relies on it.
func (s *service) joinIdle() bool {
	for n := s.idle.Load(); n < keepPullers; n = s.idle.Load() {
		if s.idle.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// leave notes that a puller ends. The caller holds s.mu.
func (s *service) leave() {
	if s.pullers--; s.pullers == 0 {
		_ = s.ended.TryPut(struct{}{})
	}
}

// took notes that a puller has a request, and starts another one if none is idle. It
// reports false if there was an error, and the puller ends.
func (s *service) took(err error) bool {
	if s.idle.Add(-1) > 0 && err == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failure = err
		s.leave()
		return false
	}
	if s.pullers < s.o.Concurrency {
		s.pullers++
		s.spawn()
	}
	return true
}

// receive handles cancellations and credits, from any goroutine.
func (s *service) receive(e *Envelope) {
	key := keyOf(e)
	s.mu.Lock()
	r := s.running[key]
	var wake *onloop.Parker
	switch e.Kind {
	case KindCancel:
		if r == nil {
			if e.isLocal(s.bus) {
				break // admit looks at the request itself
			}
			if s.revoked.add(key, s.clock.now(), e.Deadline) {
				s.stats.Forgotten++
			}
			break
		}
		r.gone = true
		wake, r.credit = r.credit, nil
	case KindCredit:
		if r == nil || e.Seq <= r.allowed {
			break
		}
		r.allowed = e.Seq
		wake, r.credit = r.credit, nil
	}
	s.mu.Unlock()
	if r != nil && e.Kind == KindCancel {
		r.scope.stop() // first, so that Send returns the error of its context, if that is the handler's
	}
	if wake != nil {
		wake.Wake()
	}
}

// stopAll ends the contexts of all handlers.
func (s *service) stopAll() {
	s.mu.Lock()
	all := slices.SortedFunc(maps.Values(s.running), func(a, b *Request) int { // a simulated run is the same each time
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Token, b.Token))
	})
	s.mu.Unlock()
	for _, r := range all {
		r.scope.stop()
	}
}

// hasEnded reports whether all pullers have ended, with their handlers.
func (s *service) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pullers == 0
}

func (s *service) counts() WorkerStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Running = len(s.running)
	return st
}

// within calls fn shielded from the end of ctx, for at most d. It reports whether d ended fn.
func within(ctx context.Context, d time.Duration, fn func(context.Context) error) (late bool) {
	if spindle.Current(ctx) != nil {
		return errors.Is(spindle.Grace(ctx, d, fn), spindle.ErrTimeout)
	}
	late, _ = moveOnAfter(context.WithoutCancel(ctx), d, fn)
	return late
}

// revocations are calls that were cancelled before their requests came: a cancellation can
// overtake a request that waits in a queue. Each is kept until the call's deadline, when
// its request is refused anyway. There are at most mostRevocations; the oldest goes first.
type revocations struct {
	until map[callKey]time.Time
	order []callKey // oldest first; may contain calls that were taken out
}

// mostRevocations is enough for many workers with full queues: every worker of a subject gets
// the cancellations of all calls that no worker has answered.
const mostRevocations = 1 << 16

// add adds a call. It reports whether it dropped another one early.
func (r *revocations) add(key callKey, now time.Time, remaining time.Duration) (forgotten bool) {
	if r.until == nil {
		r.until = map[callKey]time.Time{}
	}
	if _, ok := r.until[key]; ok {
		return false
	}
	for len(r.order) > 0 {
		until, ok := r.until[r.order[0]]
		full := len(r.order) >= mostRevocations
		if ok && now.Before(until) && !full {
			break
		}
		forgotten = forgotten || ok && now.Before(until)
		delete(r.until, r.order[0])
		r.order = r.order[1:]
	}
	if n := len(r.order); n > 0 && r.order[n-1].replyTo == key.replyTo {
		key.replyTo = r.order[n-1].replyTo // the same memory: the string may be a part of a message
	}
	r.until[key] = now.Add(remaining)
	r.order = append(r.order, key)
	return forgotten
}

// take removes a call, and reports whether it was there.
func (r *revocations) take(key callKey) bool {
	_, ok := r.until[key]
	if delete(r.until, key); ok && len(r.until) == 0 {
		*r = revocations{} // maps do not shrink
	}
	return ok
}
