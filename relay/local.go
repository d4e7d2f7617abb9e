package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle/tracing"
)

// local is a Bus inside the process.
type local struct {
	o      LocalOptions
	topics atomic.Pointer[map[string]*topic] // replaced under mu; each topic is immutable

	mu     sync.Mutex
	closed atomic.Bool // set under mu
}

// LocalOptions configures NewLocal.
type LocalOptions struct {
	// Queue is how many envelopes each queue group holds. Zero means 1,024.
	Queue int

	// MaxBody is the largest body in bytes. Zero means 16 MB.
	MaxBody int

	// ErrorLog gets requests without a ReplyTo that were in a queue when its last member left:
	// they are lost. Nil means slog.Default().
	ErrorLog *slog.Logger
}

// topic is a subject with its subscribers.
type topic struct {
	listeners []*listener
	groups    []*group
}

type group struct {
	name string
	q    queue
}

// subscription is a Subscription of a local.
type subscription struct {
	b       *local
	subject string
	g       *group
	left    bool // guarded by g.q.mu
}

type listener struct {
	b       *local
	subject string
	deliver func(*Envelope)

	mu    sync.RWMutex // held while deliver runs
	ended bool
}

// NewLocal makes a bus inside the process, between any loops and goroutines. Envelopes are passed
// by pointer.
func NewLocal(o LocalOptions) Bus {
	if o.Queue < 0 || o.MaxBody < 0 {
		panic("relay: NewLocal with a negative limit")
	}
	if o.Queue == 0 {
		o.Queue = 1024
	}
	if o.MaxBody == 0 {
		o.MaxBody = 16 << 20
	}
	b := &local{o: o}
	b.topics.Store(&map[string]*topic{})
	return b
}

// TryPublish sends e, or fails with ErrFull.
func (b *local) TryPublish(e *Envelope) error {
	t, err := b.topic(e)
	if err != nil {
		return err
	}
	switch len(t.groups) {
	case 0:
	case 1:
		err = t.groups[0].q.tryPut(e)
	default:
		err = t.putAll(e)
	}
	if err != nil {
		return err
	}
	b.accepted(t, e)
	return nil
}

// putAll puts e into the queues of all groups that have members, or of none if one is full.
func (t *topic) putAll(e *Envelope) error {
	var takers []*node
	full, taken := false, false
	for _, g := range t.groups { // every topic of a subject has its groups in the same order
		g.q.mu.Lock()
		full = full || !g.q.fits()
	}
	for _, g := range t.groups {
		if !full {
			taker, err := g.q.put(e)
			if taker != nil {
				takers = append(takers, taker)
			}
			taken = taken || err == nil
		}
		g.q.mu.Unlock()
	}
	for _, x := range takers {
		x.Wake()
	}
	switch {
	case full:
		return ErrFull
	case !taken:
		return ErrNoResponder
	}
	return nil
}

// Publish sends e, and waits while a queue of its subject is full.
func (b *local) Publish(ctx context.Context, e *Envelope) error {
	if trace := tracing.Of(ctx); e.Kind == KindRequest && e.Trace == (tracing.Context{}) && trace != (tracing.Context{}) {
		e = clone(e)
		e.Trace = trace
	}
	t, err := b.topic(e)
	if err != nil {
		return err
	}
	taken := len(t.groups) == 0
	for _, g := range t.groups {
		err := g.q.tryPut(e)
		if err == ErrFull {
			err = g.q.waitPut(ctx, e)
		}
		if err != nil && err != ErrNoResponder { // a group without members does not count
			return err
		}
		taken = taken || err == nil
	}
	if !taken {
		return ErrNoResponder
	}
	b.accepted(t, e)
	return nil
}

// topic returns the topic of an envelope.
func (b *local) topic(e *Envelope) (*topic, error) {
	if len(e.Body) > b.o.MaxBody {
		return nil, ErrTooLarge
	}
	if e.Headers != nil && e.Headers[Delay] != "" {
		return nil, fmt.Errorf("%w: %q", ErrHeader, Delay)
	}
	if t := (*b.topics.Load())[e.Subject]; t != nil {
		return t, nil
	}
	if b.closed.Load() {
		return nil, ErrClosed
	}
	if err := CheckSubject(e.Subject); err != nil {
		return nil, err
	}
	return nil, ErrNoResponder
}

func (b *local) accepted(t *topic, e *Envelope) {
	for _, l := range t.listeners {
		l.mu.RLock()
		if !l.ended {
			l.deliver(e)
		}
		l.mu.RUnlock()
	}
}

// change replaces the topic of a subject.
func (b *local) change(subject string, fn func(t *topic)) error {
	if err := CheckSubject(subject); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return ErrClosed
	}
	topics := maps.Clone(*b.topics.Load())
	next := &topic{}
	if old := topics[subject]; old != nil {
		next.listeners, next.groups = slices.Clone(old.listeners), slices.Clone(old.groups)
	}
	fn(next)
	topics[subject] = next
	if len(next.listeners)+len(next.groups) == 0 {
		delete(topics, subject)
	}
	b.topics.Store(&topics)
	return nil
}

// Listen calls deliver for each envelope of a subject. Deliver runs on the goroutine that
// publishes.
func (b *local) Listen(_ context.Context, subject string, deliver func(*Envelope)) (io.Closer, error) {
	l := &listener{b: b, subject: subject, deliver: deliver}
	err := b.change(subject, func(t *topic) { t.listeners = append(t.listeners, l) })
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Close ends the registration.
func (l *listener) Close() error {
	err := l.b.change(l.subject, func(t *topic) {
		t.listeners = slices.DeleteFunc(t.listeners, func(other *listener) bool { return other == l })
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if errors.Is(err, ErrClosed) {
		err = nil
	}
	return err
}

// Subscribe joins a queue group.
func (b *local) Subscribe(_ context.Context, subject, name string) (Subscription, error) {
	s := &subscription{b: b, subject: subject}
	err := b.change(subject, func(t *topic) {
		if name != "" {
			i := slices.IndexFunc(t.groups, func(g *group) bool { return g.name == name })
			if i >= 0 && t.groups[i].q.join() {
				s.g = t.groups[i]
				return
			}
		}
		s.g = &group{name: name, q: queue{capacity: b.o.Queue, members: 1}}
		t.groups = append(t.groups, s.g)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Next waits for an envelope.
func (s *subscription) Next(ctx context.Context) (Delivery, error) {
	e, err := s.g.q.take(ctx, s)
	return Delivery{Envelope: e}, err
}

// Close leaves the group.
func (s *subscription) Close() error {
	rest := s.g.q.leave(s)
	if !s.g.q.hasEnded() {
		return nil
	}
	err := s.b.change(s.subject, func(t *topic) {
		t.groups = slices.DeleteFunc(t.groups, func(g *group) bool { return g == s.g })
	})
	for _, e := range rest {
		s.b.bounce(e)
	}
	if errors.Is(err, ErrClosed) {
		err = nil
	}
	return err
}

// bounce answers a request that no worker will take.
func (b *local) bounce(e *Envelope) {
	if e.ReplyTo == "" {
		cmp.Or(b.o.ErrorLog, slog.Default()).Error("relay: a request is lost, because the last worker has left", traced(e.Trace, "subject", e.Subject)...)
	} else if e.Kind == KindRequest {
		_ = b.TryPublish(NewFailure(e, codeNoResponder, "the last worker has left")) // its caller may be gone
	}
}

// Ready returns nil until the bus is closed.
func (b *local) Ready() error {
	if b.closed.Load() {
		return ErrClosed
	}
	return nil
}

// Close ends all subscriptions. Requests that are queued fail.
func (b *local) Close() error {
	b.mu.Lock()
	if b.closed.Swap(true) {
		b.mu.Unlock()
		return nil
	}
	topics := *b.topics.Load()
	b.mu.Unlock()
	for _, subject := range slices.Sorted(maps.Keys(topics)) { // a simulated run is the same each time
		for _, g := range topics[subject].groups {
			for _, e := range g.q.end() {
				b.bounce(e)
			}
		}
	}
	b.topics.Store(&map[string]*topic{})
	return nil
}
