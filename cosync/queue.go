package cosync

import (
	"context"
	"iter"

	"github.com/spindleloop/spindle"
)

// Queue is a bounded queue of values between tasks. NewQueue makes one that is first in,
// first out. Those of NewStack and NewPriorityQueue have other orders. Waiting tasks are
// served in the order in which they came, whatever the order of the values.
type Queue[T any] struct {
	affinity
	capacity int
	values   buffer[T]
	putting  waitQueue[T]
	getting  waitQueue[T]
	closed   bool
}

// NewQueue makes a queue that is first in, first out. For no limit use math.MaxInt, and only
// where something else bounds the number of values.
func NewQueue[T any](capacity int) *Queue[T] { return newQueue(capacity, &ring[T]{}) }

// NewStack makes a queue that is last in, first out.
func NewStack[T any](capacity int) *Queue[T] { return newQueue(capacity, &stack[T]{}) }

// NewPriorityQueue makes a queue in which the least value comes first. Equal values come
// in the order in which they were put.
func NewPriorityQueue[T any](capacity int, less func(a, b T) bool) *Queue[T] {
	if less == nil {
		panic("cosync: NewPriorityQueue with a nil less")
	}
	return newQueue(capacity, &priorityHeap[T]{less: less})
}

func newQueue[T any](capacity int, s buffer[T]) *Queue[T] {
	if capacity < 1 {
		panic("cosync: NewQueue, NewStack or NewPriorityQueue with a capacity below 1")
	}
	q := &Queue[T]{capacity: capacity, values: s}
	q.putting.object, q.getting.object = (*queueProbe[T])(q), (*queueProbe[T])(q)
	return q
}

// Put waits until v fits into the queue, and puts it there. If Put fails, v is not in the
// queue. It fails with ErrClosed if the queue is closed.
func (q *Queue[T]) Put(ctx context.Context, v T) error {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return err
	}
	q.checkTask(w, "Queue")
	if done, err := q.put(v); done {
		w.Pass()
		return err
	}
	_, err = q.putting.wait(ctx, w, "Queue.Put", v)
	return err
}

// TryPut is like Put but fails with ErrWouldBlock instead of waiting.
func (q *Queue[T]) TryPut(v T) error {
	q.checkCaller("Queue")
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
	case q.values.len() < q.capacity:
		q.values.push(v)
		return true, nil
	}
	return false, nil
}

// Get waits for a value and removes it from the queue. If Get fails, it has removed none.
// It fails with ErrClosed if the queue is closed and empty.
func (q *Queue[T]) Get(ctx context.Context) (T, error) {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		var zero T
		return zero, err
	}
	q.checkTask(w, "Queue")
	v, done, err := q.get()
	if done {
		w.Pass()
		return v, err
	}
	return q.getting.wait(ctx, w, "Queue.Get", v)
}

// TryGet is like Get but fails with ErrWouldBlock instead of waiting.
func (q *Queue[T]) TryGet() (T, error) {
	q.checkCaller("Queue")
	v, done, err := q.get()
	if !done {
		err = ErrWouldBlock
	}
	return v, err
}

func (q *Queue[T]) get() (v T, done bool, err error) {
	if q.values.len() == 0 {
		if q.closed {
			return v, true, ErrClosed
		}
		return v, false, nil
	}
	v = q.values.pop()
	if w := q.putting.take(); w != nil {
		q.values.push(w.value)
		w.waker.Wake(nil)
	}
	return v, true, nil
}

// All yields values until the queue is closed and empty. If Get fails otherwise, All
// yields the error and stops.
func (q *Queue[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return all(ctx, q.Get, ErrClosed)
}

// Close closes the queue. Put fails with ErrClosed from then on, also where it already
// waits. Get returns the values that are left, and then fails with ErrClosed. Closing a
// queue again does nothing.
func (q *Queue[T]) Close() {
	q.checkCaller("Queue")
	if q.closed {
		return
	}
	q.closed = true
	q.putting.fail(ErrClosed)
	q.getting.fail(ErrClosed) // if a task waits, the queue is empty
}

// Statistics returns the present use of the queue.
func (q *Queue[T]) Statistics() Statistics {
	q.checkReader("Queue")
	return Statistics{
		Used: q.values.len(), Capacity: q.capacity,
		Waiting: q.getting.n, Putting: q.putting.n,
	}
}
