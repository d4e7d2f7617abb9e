package nats

import (
	"context"
	"sync"
	"time"

	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/relay"
)

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
