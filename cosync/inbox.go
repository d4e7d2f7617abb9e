package cosync

import (
	"context"
	"iter"
	"sync"
)

// Inbox is a bounded queue of values between goroutines and tasks of any loops. Put waits
// while the inbox is full, and Get waits while it is empty. Both are served in the order
// in which they came, and each value goes to one Get. Make one with NewInbox.
//
// An Inbox belongs to no loop, and its methods may be called from any goroutine. A task
// that waits never blocks its loop. A callback must not wait: it uses TryPut and TryGet.
//
// Close an Inbox when its readers stop. Otherwise goroutines in Put wait until their ctx
// ends.
type Inbox[T any] struct {
	capacity int

	mu     sync.Mutex
	buffer ring[T]         // guarded by mu, as all below
	queues [2]waitQueue[T] // waiters: putting, getting
	spare  *waiter[T]      // waiters that are not in use
	spares int
	closed bool
}

// NewInbox makes an inbox that holds up to capacity values, at least one.
func NewInbox[T any](capacity int) *Inbox[T] {
	if capacity < 1 {
		panic("cosync: NewInbox with a capacity below 1")
	}
	return &Inbox[T]{capacity: capacity}
}

// Put waits until v fits into the inbox, and puts it there. If Put fails, v is not in the
// inbox. It fails with ErrClosed if the inbox is closed. In a task, a Put that need not
// wait lets other tasks run only after many such calls in a row.
func (b *Inbox[T]) Put(ctx context.Context, v T) error {
	if err := checkpoint(ctx); err != nil {
		return err
	}
	if done, err := b.lockedPut(v); done {
		return err
	}
	_, err := b.wait(ctx, putting, v)
	return err
}

// TryPut is like Put but fails with ErrWouldBlock instead of waiting.
func (b *Inbox[T]) TryPut(v T) error {
	done, err := b.lockedPut(v)
	if !done {
		return ErrWouldBlock
	}
	return err
}

// Get waits for a value and removes it from the inbox. If Get fails, it has removed
// none. It fails with ErrClosed if the inbox is closed and empty. In a task, a Get that
// need not wait lets other tasks run only after many such calls in a row.
func (b *Inbox[T]) Get(ctx context.Context) (v T, err error) {
	if err := checkpoint(ctx); err != nil {
		return v, err
	}
	if v, done, err := b.lockedGet(); done {
		return v, err
	}
	return b.wait(ctx, getting, v)
}

// TryGet is like Get but fails with ErrWouldBlock instead of waiting.
func (b *Inbox[T]) TryGet() (T, error) {
	v, done, err := b.lockedGet()
	if !done {
		err = ErrWouldBlock
	}
	return v, err
}

// All yields values until the inbox is closed and empty. If Get fails otherwise, All
// yields the error and stops.
func (b *Inbox[T]) All(ctx context.Context) iter.Seq2[T, error] { return all(ctx, b.Get, ErrClosed) }

// Close closes the inbox. Put fails with ErrClosed from then on, also where it already
// waits. Get returns the values that are left, and then fails with ErrClosed. Closing an
// inbox again does nothing.
func (b *Inbox[T]) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for d := range b.queues {
		for w := b.queues[d].take(); w != nil; w = b.queues[d].take() {
			w.remote.wake(ErrClosed)
		}
	}
}

// Statistics returns the present use of the inbox.
func (b *Inbox[T]) Statistics() Statistics {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Statistics{
		Used: b.buffer.n, Capacity: b.capacity,
		Waiting: b.queues[getting].n, Putting: b.queues[putting].n,
	}
}

func (b *Inbox[T]) lockedPut(v T) (done bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.put(v)
}

func (b *Inbox[T]) lockedGet() (v T, done bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.get()
}

// put puts v in, or gives it to a waiter. It reports whether it did, or failed; if not,
// the caller has to wait. The caller holds b.mu.
func (b *Inbox[T]) put(v T) (done bool, err error) {
	if b.closed {
		return true, ErrClosed
	}
	for w := b.queues[getting].take(); w != nil; w = b.queues[getting].take() {
		w.value = v
		if w.remote.wake(nil) {
			return true, nil
		}
	}
	if b.buffer.n == b.capacity {
		return false, nil
	}
	b.buffer.push(v)
	return true, nil
}

// get removes a value. It reports whether it did, or failed; if not, the caller has to
// wait. The caller holds b.mu.
func (b *Inbox[T]) get() (v T, done bool, err error) {
	if b.buffer.n == 0 {
		if b.closed {
			err = ErrClosed
		}
		return v, b.closed, err
	}
	v = b.buffer.pop()
	for w := b.queues[putting].take(); w != nil; w = b.queues[putting].take() {
		value := w.value // a goroutine that is woken may reuse w
		if w.remote.wake(nil) {
			b.buffer.push(value)
			break
		}
	}
	return v, true, nil
}
