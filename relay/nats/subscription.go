package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/relay"
)

// flushTimeout limits the wait for an answer of the server.
const flushTimeout = 5 * time.Second

// subscription is a membership in a queue group of a subject that is not durable. The client
// of NATS calls receive on a goroutine of its own, which fills the queue that Next takes from.
type subscription struct {
	b       *Bus
	subject string
	sub     *nats.Subscription
	queue   *arrivals
	closed  atomic.Bool
	drops   drops

	mu   sync.Mutex
	late []arrival // that came after Close; guarded by mu
	left bool      // the server sends no more; guarded by mu
	why  error     // of the end, if the server has refused the subscription; guarded by mu
}

// Subscribe joins a queue group. It returns when the server has the membership.
func (b *Bus) Subscribe(ctx context.Context, subject, group string) (relay.Subscription, error) {
	if d := b.durable(subject); d != nil {
		return b.consume(ctx, d, subject, group)
	}
	s := &subscription{b: b, subject: subject, queue: newArrivals(b.o.Queue)}
	err := b.register(ctx, s, subject, func() (err error) {
		if group == "" {
			s.sub, err = b.nc.Subscribe(subject, s.receive)
		} else {
			s.sub, err = b.nc.QueueSubscribe(subject, group, s.receive)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// flush waits until the server has handled what was sent.
func (b *Bus) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	return b.nc.FlushWithContext(ctx)
}

// translated returns an error of the client of NATS as one of relay.
func translated(err error) error {
	switch {
	case errors.Is(err, nats.ErrConnectionClosed):
		return relay.ErrClosed
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", relay.ErrTooLarge, err)
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrNoServers),
		errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrStaleConnection), errors.Is(err, nats.ErrConnectionReconnecting):
		return fmt.Errorf("%w: %w", relay.ErrDown, err)
	}
	return err
}

// receive puts a message into the queue. A request that does not fit is answered.
func (s *subscription) receive(m *nats.Msg) {
	e, err := decode(m)
	if err != nil {
		s.b.dropped.Add(1)
		return
	}
	a := arrival{e, time.Now()}
	switch err := s.queue.tryPut(a); {
	case err == nil:
	case errors.Is(err, cosync.ErrClosed):
		s.hold(a)
	default:
		s.b.dropped.Add(1)
		if e.Kind == relay.KindRequest && e.ReplyTo != "" {
			_ = s.b.TryPublish(relay.NewFailure(e, relay.CodeFull, "the worker's queue is full")) // its caller has a deadline
		}
	}
}

// Next waits for an envelope.
func (s *subscription) Next(ctx context.Context) (relay.Delivery, error) {
	if s.closed.Load() {
		return relay.Delivery{}, s.whyEnded() // what is left in the queue is for other members
	}
	a, err := s.queue.get(ctx)
	switch {
	case errors.Is(err, cosync.ErrClosed):
		return relay.Delivery{}, s.whyEnded()
	case err != nil:
		return relay.Delivery{}, err
	}
	a.age()
	return relay.Delivery{Envelope: a.e}, nil
}

// whyEnded returns the error of Next after Close.
func (s *subscription) whyEnded() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		return s.why
	}
	return relay.ErrClosed
}

func (s *subscription) pattern() string { return s.subject }

// refuse ends the subscription: no request would ever come.
func (s *subscription) refuse(err error) {
	s.mu.Lock()
	s.why = fmt.Errorf("relay/nats: %s: %w", s.subject, err)
	s.mu.Unlock()
	s.Close()
}

// age subtracts the time in the queue from the deadline. One that has passed is negative.
func (a *arrival) age() {
	if a.e.Deadline == 0 {
		return
	}
	if a.e.Deadline -= time.Since(a.at); a.e.Deadline == 0 {
		a.e.Deadline = -1
	}
}

// Close leaves the group. Requests in the queue are sent to the other members; if there are
// none, the server answers them.
func (s *subscription) Close() error {
	if !s.closed.Swap(true) {
		s.b.forget(s)
		s.queue.close()
		s.b.background(s.leave) // it waits for the server
	}
	return nil
}

// hold keeps a request until the server knows that this member has left: before, the server
// might send it here again.
func (s *subscription) hold(a arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		s.forward(a)
		return
	}
	s.late = append(s.late, a)
}

// leave ends the membership, and then forwards what has come. It drains, because the client
// drops messages that are on their way when a subscription ends.
func (s *subscription) leave() {
	s.countDrops()
	if s.sub != nil {
		drained := make(chan struct{})
		s.sub.SetClosedHandler(func(string) { close(drained) })
		if s.sub.Drain() == nil { // without a connection there is no membership
			select {
			case <-drained:
			case <-time.After(flushTimeout):
			}
			s.countDrops()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	for _, a := range s.queue.rest() {
		s.forward(a)
	}
	for _, a := range s.late {
		s.forward(a)
	}
}

func (s *subscription) countDrops() { s.drops.count(s.b, s.sub) }

// forward sends a request to the other members of the group.
func (s *subscription) forward(a arrival) {
	a.age()
	var m nats.Msg
	err := encode(&m, a.e, false)
	if err == nil {
		err = s.b.nc.PublishMsg(&m)
	}
	if err != nil {
		s.b.dropped.Add(1)
	}
}
