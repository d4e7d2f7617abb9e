package cosync

import (
	"context"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/probe"
)

// countedLot is a spindle.Lot that counts its tasks. Loop goroutine only.
type countedLot struct {
	lot spindle.Lot
	n   int
}

func (c *countedLot) wait(ctx context.Context, what string) error {
	c.n++
	err := c.lot.Wait(ctx, what)
	if err != nil {
		c.n--
	}
	return err
}

func (c *countedLot) wake(n int) int {
	n = c.lot.Wake(n)
	c.n -= n
	return n
}

// waitQueue is a queue of waiters in the order in which they came, each with a value that
// it gives or gets. Every waiter in the queue can be served, because a waiter leaves as
// soon as its wait is cancelled. Loop goroutine only, except that an Inbox guards its
// queues with a mutex.
type waitQueue[T any] struct {
	first, last *waiter[T]
	n           int

	// onAbort replaces leaving the queue when a wait is cancelled. Only Cond sets it.
	onAbort func(*waiter[T]) bool

	// holder is the task that holds the lock of this queue. It is nil if the queue
	// belongs to no lock.
	holder *coro.Ref

	// object describes the object of this queue to an inspector. Waits set it.
	object probe.Object

	// spare is a list of unused waiters, so that waiting does not allocate.
	spare  *waiter[T]
	spares int
}

// keepSpare is the maximal number of unused waiters that a queue keeps.
const keepSpare = 64

// waiter is an entry of a waitQueue.
type waiter[T any] struct {
	prev, next *waiter[T]
	queue      *waitQueue[T] // nil once the waiter was served or has left
	value      T             // the value to give, or the one that the waiter was given
	waker      spindle.Waker
	endpoint   *endpoint  // the end of a channel that the waiter uses
	selection  *selection // the Select that the waiter is a case of
	index      int        // of the case
	canceled   bool       // the wait was cancelled, and now waits for the Cond's mutex
	remote     *remote    // wakes a waiter of an Inbox

	abort func() bool // replaces leave in Abort; usually nil
}

// Abort removes w from its queue.
func (w *waiter[T]) Abort() bool {
	if w.abort != nil {
		return w.abort()
	}
	return w.leave()
}

// Holder returns the task that holds the lock w waits for, for the task tree.
func (w *waiter[T]) Holder() coro.Ref {
	if w.queue == nil || w.queue.holder == nil {
		return coro.Ref{}
	}
	return *w.queue.holder
}

// wait adds the task of waker to the queue and waits until it is served. It returns the
// value that the task was given. A task that gives a value passes it as v.
func (q *waitQueue[T]) wait(ctx context.Context, waker spindle.Waker, what string, v T) (T, error) {
	w := q.join(waker, v, nil)
	err := waker.Park(ctx, what, w)
	v = w.value
	q.release(w)
	return v, err
}

// join adds the task of waker to the queue. The task must park next, and then release
// the waiter.
func (q *waitQueue[T]) join(waker spindle.Waker, v T, e *endpoint) *waiter[T] {
	w := q.newWaiter()
	w.value, w.endpoint, w.waker = v, e, waker
	q.push(w)
	return w
}

func (q *waitQueue[T]) newWaiter() *waiter[T] {
	w := q.spare
	if w == nil {
		w = new(waiter[T])
		if q.onAbort != nil {
			w.abort = func() bool { return q.onAbort(w) }
		}
		return w
	}
	q.spare, w.next = w.next, nil
	q.spares--
	return w
}

func (q *waitQueue[T]) release(w *waiter[T]) {
	var zero T
	w.value, w.endpoint = zero, nil
	if q.spares < keepSpare {
		q.spare, w.next = w, q.spare
		q.spares++
	}
}

func (q *waitQueue[T]) push(w *waiter[T]) {
	w.queue, w.prev = q, q.last
	if q.last != nil {
		q.last.next = w
	} else {
		q.first = w
	}
	q.last = w
	q.n++
}

// leave removes w from its queue. It reports whether w was in one.
func (w *waiter[T]) leave() bool {
	q := w.queue
	if q == nil {
		return false
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.last = w.prev
	}
	w.queue, w.prev, w.next = nil, nil, nil
	q.n--
	return true
}

// take removes and returns the first waiter, or nil if there is none. The caller must
// then wake it.
func (q *waitQueue[T]) take() *waiter[T] {
	w := q.first
	if w == nil {
		return nil
	}
	w.leave()
	if w.selection != nil {
		w.selection.choose(w.index)
	}
	return w
}

// give gives v to the first waiter and wakes it. It reports whether there was one.
func (q *waitQueue[T]) give(v T) bool {
	w := q.take()
	if w == nil {
		return false
	}
	w.value = v
	w.waker.Wake(nil)
	return true
}

// fail ends all waits with err.
func (q *waitQueue[T]) fail(err error) {
	for w := q.take(); w != nil; w = q.take() {
		w.waker.Wake(err)
	}
}

// failEndpoint ends the waits that use one end of a channel.
func (q *waitQueue[T]) failEndpoint(e *endpoint, err error) {
	for w := q.first; w != nil; {
		next := w.next
		if w.endpoint == e {
			w.leave()
			if w.selection != nil {
				w.selection.choose(w.index)
				next = q.first // choose may have removed the next waiter
			}
			w.waker.Wake(err)
		}
		w = next
	}
}
