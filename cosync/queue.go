package cosync

import (
	"context"
	"iter"
	"math"

	"github.com/spindleloop/spindle"
)

// Unlimited is the capacity of a queue that grows as long as there is memory. Use
// it only where something else bounds what is put in.
const Unlimited = math.MaxInt

// Queue is a bounded queue of values between tasks. NewQueue makes one that is
// first in, first out; NewStack and NewPriorityQueue order values otherwise. Tasks
// that wait are served in the order they came, whatever the order of the values.
type Queue[T any] struct {
	home
	capacity int
	kept     store[T]
	putting  line[T]
	getting  line[T]
	closed   bool
}

// NewQueue makes a queue that is first in, first out.
func NewQueue[T any](capacity int) *Queue[T] { return newQueue(capacity, &ring[T]{}) }

// NewStack makes a queue that is last in, first out.
func NewStack[T any](capacity int) *Queue[T] { return newQueue(capacity, &stack[T]{}) }

// NewPriorityQueue makes a queue from which the least value comes first; equal
// ones come in the order they were put in.
func NewPriorityQueue[T any](capacity int, less func(a, b T) bool) *Queue[T] {
	return newQueue(capacity, &ranking[T]{less: less})
}

func newQueue[T any](capacity int, s store[T]) *Queue[T] {
	if capacity < 1 {
		panic("cosync: a queue with a capacity below 1")
	}
	return &Queue[T]{capacity: capacity, kept: s}
}

// Put waits until there is room for v, and puts it in. If it fails, v is not in
// the queue: with ErrClosed if that is closed.
func (q *Queue[T]) Put(ctx context.Context, v T) error {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return err
	}
	q.admit(w, "Queue")
	if done, err := q.put(v); done {
		w.Pass()
		return err
	}
	_, err = q.putting.wait(ctx, w, "Queue.Put", v)
	return err
}

// TryPut is Put that fails with ErrWouldBlock instead of waiting.
func (q *Queue[T]) TryPut(v T) error {
	q.here("Queue")
	done, err := q.put(v)
	if !done {
		return ErrWouldBlock
	}
	return err
}

func (q *Queue[T]) put(v T) (done bool, err error) {
	switch {
	case q.closed:
		return true, ErrClosed
	case q.getting.give(v): // then the queue is empty
		return true, nil
	case q.kept.len() < q.capacity:
		q.kept.push(v)
		return true, nil
	}
	return false, nil
}

// Get waits for a value and takes it out. If it fails, it has taken none: with
// ErrClosed if the queue is closed and empty.
func (q *Queue[T]) Get(ctx context.Context) (T, error) {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		var zero T
		return zero, err
	}
	q.admit(w, "Queue")
	v, done, err := q.get()
	if done {
		w.Pass()
		return v, err
	}
	return q.getting.wait(ctx, w, "Queue.Get", v)
}

// TryGet is Get that fails with ErrWouldBlock instead of waiting.
func (q *Queue[T]) TryGet() (T, error) {
	q.here("Queue")
	v, done, err := q.get()
	if !done {
		err = ErrWouldBlock
	}
	return v, err
}

func (q *Queue[T]) get() (v T, done bool, err error) {
	if q.kept.len() == 0 {
		if q.closed {
			return v, true, ErrClosed
		}
		return v, false, nil
	}
	v = q.kept.pop()
	if w := q.putting.take(); w != nil {
		q.kept.push(w.value)
		w.waker.Wake(nil)
	}
	return v, true, nil
}

// All yields what is got until the queue is closed and empty. If getting fails
// otherwise, it yields the error and stops.
func (q *Queue[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return all(ctx, q.Get, ErrClosed)
}

// Close ends the queue: whoever puts, or waits to, gets ErrClosed at once; whoever
// gets, gets what is left, and then ErrClosed. Closing twice does nothing.
func (q *Queue[T]) Close() {
	q.here("Queue")
	if q.closed {
		return
	}
	q.closed = true
	q.putting.fail(ErrClosed)
	q.getting.fail(ErrClosed) // if any wait, nothing is left
}

// Statistics returns the present use of the queue.
func (q *Queue[T]) Statistics() Statistics {
	q.look("Queue")
	return Statistics{
		Used: q.kept.len(), Capacity: q.capacity,
		Waiting: q.getting.n, Putting: q.putting.n,
	}
}
