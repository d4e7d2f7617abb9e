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
// of NATS puts messages into a channel; see reader for the way from there to Next.
type subscription struct {
	b        *Bus
	subject  string
	sub      *nats.Subscription
	messages chan *nats.Msg
	queue    *cosync.Inbox[arrival]
	closed   atomic.Bool
	ended    chan struct{} // closed by Close
	reader   reader
	drops    drops

	mu   sync.Mutex
	late []arrival // that came after Close; guarded by mu
	left bool      // the server sends no more; guarded by mu
	why  error     // of the end, if the server has refused the subscription; guarded by mu
}

// arrival is a request in the queue of a subscription. One without an envelope is the baton of
// the reader.
type arrival struct {
	e  *relay.Envelope
	at time.Time
}

// minMessages is the least capacity of the channel of a subscription. The client drops what
// does not fit, so there is space for what comes until a pump starts.
const minMessages = 8192

// Subscribe joins a queue group. It returns when the server has the membership.
func (b *Bus) Subscribe(ctx context.Context, subject, group string) (relay.Subscription, error) {
	if d := b.durable(subject); d != nil {
		return b.consume(ctx, d, subject, group)
	}
	s := &subscription{
		b: b, subject: subject, messages: make(chan *nats.Msg, max(minMessages, 2*b.o.Queue)),
		queue: cosync.NewInbox[arrival](b.o.Queue + 1), // and the baton
		ended: make(chan struct{}),
	}
	err := b.register(ctx, s, subject, func() (err error) {
		if group == "" {
			s.sub, err = b.nc.ChanSubscribe(subject, s.messages)
		} else {
			s.sub, err = b.nc.ChanQueueSubscribe(subject, group, s.messages)
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
	switch err := s.put(a); {
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

// put puts a request into the queue, which has a place more than it takes requests: the baton
// takes none of theirs.
func (s *subscription) put(a arrival) error {
	s.reader.mu.Lock()
	defer s.reader.mu.Unlock()
	if !s.reader.baton && s.queue.Statistics().Used >= s.b.o.Queue && !s.closed.Load() {
		return cosync.ErrWouldBlock
	}
	return s.queue.TryPut(a)
}

// Next waits for an envelope.
func (s *subscription) Next(ctx context.Context) (relay.Delivery, error) {
	leads := s.lead(ctx)
	for !s.closed.Load() {
		if leads {
			e, err := s.read(ctx)
			return relay.Delivery{Envelope: e}, err
		}
		a, err := s.queue.Get(ctx)
		switch {
		case errors.Is(err, cosync.ErrClosed):
			return relay.Delivery{}, s.whyEnded()
		case err != nil:
			return relay.Delivery{}, err
		case a.e != nil:
			a.age()
			return relay.Delivery{Envelope: a.e}, nil
		}
		leads = s.takeBaton() || s.lead(ctx)
	}
	return relay.Delivery{}, s.whyEnded()
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
		s.queue.Close()
		close(s.ended)
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
			s.receiveUntil(drained)
		}
	}
	s.receiveRest()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	for a, err := s.queue.TryGet(); err == nil; a, err = s.queue.TryGet() {
		s.forward(a)
	}
	for _, a := range s.late {
		s.forward(a)
	}
}

// receiveUntil receives messages until the subscription has ended.
func (s *subscription) receiveUntil(drained chan struct{}) {
	limit := time.After(flushTimeout)
	for {
		select {
		case m := <-s.messages:
			s.receive(m)
			s.countDrops()
		case <-drained:
			return
		case <-limit:
			return
		}
	}
}

// receiveRest receives what is in the channel. It does not wait: a call of Next or a pump that
// has not seen the end yet may take the last message.
func (s *subscription) receiveRest() {
	for {
		select {
		case m := <-s.messages:
			s.receive(m)
		default:
			return
		}
	}
}

func (s *subscription) countDrops() { s.drops.count(s.b, s.sub) }

// forward sends a request to the other members of the group.
func (s *subscription) forward(a arrival) {
	if a.e == nil {
		return
	}
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
