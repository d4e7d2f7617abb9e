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
			_ = s.b.TryPublish(relay.NewFailure(e, "full", "the worker's queue is full")) // its caller has a deadline
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

// arrival is a request in the queue of a subscription.
type arrival struct {
	e  *relay.Envelope
	at time.Time
}

// arrivals is the queue of a subscription: one goroutine puts, and many calls of get wait.
//
// It wakes one of them at a time, and that one wakes the next if there is more. Requests come
// many at a time, and most handlers return at once. Those are then called one after the other on
// the goroutine that is awake, instead of each on a goroutine that has to be woken. If a handler
// takes long, the next goroutine is already on its way. A task on a loop that is blocked keeps the
// others waiting once it has been chosen, so all calls for a subscription should be tasks of one
// loop, or goroutines, as those of relay are.
type arrivals struct {
	capacity int
	turn     *cosync.Inbox[struct{}] // wakes a call of get

	mu      sync.Mutex
	list    []arrival // guarded by mu, as all below
	taken   int       // of list, from its start
	waiting int       // calls of get, with those that are being woken
	waking  bool      // a call of get is being woken, or the next one need not wait; true if there is a request
	closed  bool
}

func newArrivals(capacity int) *arrivals {
	return &arrivals{capacity: capacity, turn: cosync.NewInbox[struct{}](1)}
}

// tryPut adds a. It fails with cosync.ErrWouldBlock if there are more requests than calls of get
// and the capacity, and with cosync.ErrClosed after close.
func (q *arrivals) tryPut(a arrival) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return cosync.ErrClosed
	case q.len() >= q.capacity+q.waiting:
		return cosync.ErrWouldBlock
	}
	if q.taken > len(q.list)/2 && len(q.list) == cap(q.list) { // the places of those that were taken are used again
		n := copy(q.list, q.list[q.taken:])
		clear(q.list[n:])
		q.list, q.taken = q.list[:n], 0
	}
	q.list = append(q.list, a)
	q.wake()
	return nil
}

// wake wakes one call of get, unless one is being woken. The caller holds q.mu.
func (q *arrivals) wake() {
	if !q.waking && q.len() > 0 {
		q.waking = true
		_ = q.turn.TryPut(struct{}{}) // it is empty, or closed, or a call that has panicked has left one
	}
}

// get waits for a request. It fails with cosync.ErrClosed after close.
func (q *arrivals) get(ctx context.Context) (arrival, error) {
	if err := ended(ctx); err != nil {
		return arrival{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.len() == 0 || q.closed {
		if err := q.wait(ctx); err != nil {
			return arrival{}, err
		}
	}
	a := q.pop()
	q.wake()
	return a, nil
}

// wait waits to be woken. The caller holds q.mu before and after it, even if it panics or ends the
// goroutine: then another call of get is woken.
func (q *arrivals) wait(ctx context.Context) (err error) {
	returned := false
	q.waiting++
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		q.waiting--
		if err == nil {
			q.waking = false
		}
		if !returned {
			q.wake()
		}
	}()
	_, err = q.turn.Get(ctx)
	returned = true
	return err
}

// pop removes the oldest request. The caller holds q.mu.
func (q *arrivals) pop() arrival {
	a := q.list[q.taken]
	q.list[q.taken] = arrival{}
	q.taken++
	return a
}

// len returns how many requests there are. The caller holds q.mu.
func (q *arrivals) len() int { return len(q.list) - q.taken }

// close ends all calls of get. What is in the queue stays there.
func (q *arrivals) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.turn.Close()
}

// rest removes all requests.
func (q *arrivals) rest() []arrival {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.list[q.taken:]
	q.list, q.taken = nil, 0
	return all
}
