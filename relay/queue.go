package relay

import (
	"context"
	"sync"

	"github.com/spindleloop/spindle/internal/onloop"
)

// queue is the bounded queue of a queue group. Publishers wait while it is full, members
// wait while it is empty. Any goroutine.
type queue struct {
	capacity int

	mu      sync.Mutex
	ring    []*Envelope // guarded by mu, as all below
	head, n int
	putting nodes // publishers that wait, first come first served
	taking  nodes // members that wait; the last one is served first, because it is warm
	members int
	ended   bool // the last member has left
}

// node is a publisher or a member that waits. Guarded by the queue's mutex until it is
// taken out of its list.
type node struct {
	onloop.Parker
	q          *queue
	in         *nodes // nil once it is taken out
	prev, next *node
	taker      *subscription // nil for a publisher
	e          *Envelope
	err        error
}

// Abort takes the node out of its list.
func (x *node) Abort() bool {
	x.q.mu.Lock()
	defer x.q.mu.Unlock()
	if x.in == nil {
		return false
	}
	x.in.remove(x)
	return true
}

// nodes is a list of nodes that wait.
type nodes struct{ first, last *node }

func (l *nodes) push(x *node) {
	x.in, x.prev, x.next = l, l.last, nil
	if l.last != nil {
		l.last.next = x
	} else {
		l.first = x
	}
	l.last = x
}

func (l *nodes) remove(x *node) {
	if x.prev != nil {
		x.prev.next = x.next
	} else {
		l.first = x.next
	}
	if x.next != nil {
		x.next.prev = x.prev
	} else {
		l.last = x.prev
	}
	x.in, x.prev, x.next = nil, nil, nil
}

// tryPut puts e in, or gives it to a member that waits.
func (q *queue) tryPut(e *Envelope) error {
	q.mu.Lock()
	taker, err := q.put(e)
	q.mu.Unlock()
	if taker != nil {
		taker.Wake()
	}
	return err
}

// fits reports whether put would not fail with ErrFull. The caller holds q.mu.
func (q *queue) fits() bool { return q.ended || q.taking.last != nil || q.n < q.capacity }

// put returns the member that is to be woken, if one waits. The caller holds q.mu.
func (q *queue) put(e *Envelope) (taker *node, err error) {
	if q.ended {
		return nil, ErrNoResponder
	}
	if x := q.taking.last; x != nil {
		q.taking.remove(x)
		x.e = e
		return x, nil
	}
	if q.n == q.capacity {
		return nil, ErrFull
	}
	q.push(e)
	return nil, nil
}

// push adds e to the ring, which grows up to the capacity.
func (q *queue) push(e *Envelope) {
	if q.n == len(q.ring) {
		larger := make([]*Envelope, min(max(2*q.n, 16), q.capacity))
		for i := range q.n {
			larger[i] = q.ring[(q.head+i)%len(q.ring)]
		}
		q.ring, q.head = larger, 0
	}
	q.ring[(q.head+q.n)%len(q.ring)] = e
	q.n++
}

func (q *queue) pop() *Envelope {
	e := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return e
}

// waitPut waits until e fits.
func (q *queue) waitPut(ctx context.Context, e *Envelope) error {
	x := &node{q: q, e: e}
	if err := x.Prepare(ctx, "relay: Publish"+wouldBlock); err != nil {
		return err
	}
	q.mu.Lock()
	taker, err := q.put(e)
	if err != ErrFull {
		q.mu.Unlock()
		if taker != nil {
			taker.Wake()
		}
		x.Pass()
		return err
	}
	q.putting.push(x)
	q.mu.Unlock()
	if err := x.Park(ctx, "relay: Publish, the queue is full", x); err != nil {
		return err
	}
	return x.err
}

// take waits for an envelope, for a member.
func (q *queue) take(ctx context.Context, s *subscription) (*Envelope, error) {
	x := spareNodes.Get().(*node)
	if err := x.Prepare(ctx, "relay: Next"+wouldBlock); err != nil {
		return nil, err
	}
	e, err := q.takeWith(ctx, s, x)
	x.clear()
	spareNodes.Put(x) // not if the wait did not return: a Parker has no other use then
	return e, err
}

// takeWith is take with a node that is prepared.
func (q *queue) takeWith(ctx context.Context, s *subscription, x *node) (e *Envelope, err error) {
	q.mu.Lock()
	var putter *node
	switch {
	case s.left || q.ended:
		err = ErrClosed
	case q.n > 0:
		e, putter = q.pop(), q.refill()
	default:
		x.q, x.taker = q, s
		q.taking.push(x)
		q.mu.Unlock()
		if err := x.Park(ctx, "relay: Next, the queue is empty", x); err != nil {
			return nil, err
		}
		return x.e, x.err
	}
	q.mu.Unlock()
	if putter != nil {
		putter.Wake()
	}
	x.Pass()
	return e, err
}

// refill moves the envelope of the first waiting publisher into the ring and returns the
// publisher, which is to be woken. The caller holds q.mu.
func (q *queue) refill() *node {
	x := q.putting.first
	if x != nil {
		q.putting.remove(x)
		q.push(x.e)
	}
	return x
}

// spareNodes are nodes that are not in use.
var spareNodes = sync.Pool{New: func() any { return &node{} }}

func (x *node) clear() {
	x.q, x.e, x.err, x.taker = nil, nil, nil, nil
	x.Release()
}

// leave takes a member out. Its waiting calls of Next end. If it was the last one, leave
// ends the queue and returns what is left in it.
func (q *queue) leave(s *subscription) (rest []*Envelope) {
	q.mu.Lock()
	if s.left {
		q.mu.Unlock()
		return nil
	}
	s.left = true
	var wake []*node
	for x := q.taking.first; x != nil; {
		next := x.next
		if x.taker == s {
			wake = append(wake, q.fail(x, ErrClosed))
		}
		x = next
	}
	if q.members--; q.members == 0 {
		rest, wake = q.finish(wake, ErrNoResponder)
	}
	q.mu.Unlock()
	for _, x := range wake {
		x.Wake()
	}
	return rest
}

// end ends the queue with all of its members, and returns what is left in it.
func (q *queue) end() (rest []*Envelope) {
	q.mu.Lock()
	rest, wake := q.finish(nil, ErrClosed)
	q.mu.Unlock()
	for _, x := range wake {
		x.Wake()
	}
	return rest
}

// finish ends the queue. It adds the nodes that are to be woken to wake. The caller holds
// q.mu.
func (q *queue) finish(wake []*node, why error) (rest []*Envelope, all []*node) {
	q.ended = true
	for q.n > 0 {
		rest = append(rest, q.pop())
	}
	for q.putting.first != nil {
		wake = append(wake, q.fail(q.putting.first, why))
	}
	for q.taking.first != nil {
		wake = append(wake, q.fail(q.taking.first, ErrClosed))
	}
	return rest, wake
}

func (q *queue) fail(x *node, err error) *node {
	x.in.remove(x)
	x.err = err
	return x
}

// join adds a member. It reports false if the queue has ended.
func (q *queue) join() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return false
	}
	q.members++
	return true
}

func (q *queue) hasEnded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n
}
