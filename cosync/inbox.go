package cosync

import (
	"context"
	"iter"

	"github.com/spindleloop/spindle"
)

// Inbox is a bounded queue by which goroutines, and tasks of other loops, give
// values to tasks. If it is full, who puts waits; if it is empty, who gets does.
// Both are served in the order they came. It belongs to no loop: several may get
// from one Inbox, and each value goes to one of them. Make one with NewInbox.
//
// Put and Close are for any goroutine. A task may put, too, and then waits as
// tasks do: it never blocks its loop.
//
// Close an Inbox when nobody will get from it any more; otherwise goroutines that
// put wait until their ctx ends.
type Inbox[T any] struct{ b bridge[T] }

// NewInbox makes an inbox that holds up to capacity values, at least one.
func NewInbox[T any](capacity int) *Inbox[T] {
	if capacity < 1 {
		panic("cosync: NewInbox with a capacity below 1")
	}
	return &Inbox[T]{bridge[T]{capacity: capacity}}
}

// Put waits until there is room for v, and puts it in. If it fails, v is not in
// the inbox: with ErrClosed if that is closed. In a task, a Put that need not wait
// does not switch.
func (i *Inbox[T]) Put(ctx context.Context, v T) error { return i.b.anyPut(ctx, "Inbox.Put", v) }

// TryPut is Put that fails with ErrWouldBlock instead of waiting.
func (i *Inbox[T]) TryPut(v T) error { return i.b.tryPut(v) }

// Get waits for a value and takes it out. It is for tasks. If it fails, it has
// taken none: with ErrClosed if the inbox is closed and empty.
func (i *Inbox[T]) Get(ctx context.Context) (v T, err error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return v, err
	}
	if v, done, err := i.b.lockedGet(); done {
		return v, err
	}
	return i.b.park(ctx, "Inbox.Get", getting, v)
}

// TryGet is Get that fails with ErrWouldBlock instead of waiting. It is for any
// goroutine.
func (i *Inbox[T]) TryGet() (T, error) { return i.b.tryGet() }

// All yields what is got until the inbox is closed and empty. If getting fails
// otherwise, it yields the error and stops. It is for tasks.
func (i *Inbox[T]) All(ctx context.Context) iter.Seq2[T, error] { return all(ctx, i.Get, ErrClosed) }

// Close ends the inbox: whoever puts, or waits to, gets ErrClosed at once; whoever
// gets, gets what is left, and then ErrClosed. Closing twice does nothing.
func (i *Inbox[T]) Close() { i.b.close() }

// Statistics tells how the inbox is used now. It is for any goroutine.
func (i *Inbox[T]) Statistics() QueueStatistics { return i.b.statistics() }

// Outbox is the other direction: a bounded queue by which tasks give values to
// goroutines, and to tasks of other loops. In all else it is an Inbox. Make one
// with NewOutbox.
type Outbox[T any] struct{ b bridge[T] }

// NewOutbox makes an outbox that holds up to capacity values, at least one.
func NewOutbox[T any](capacity int) *Outbox[T] {
	if capacity < 1 {
		panic("cosync: NewOutbox with a capacity below 1")
	}
	return &Outbox[T]{bridge[T]{capacity: capacity}}
}

// Put waits until there is room for v, and puts it in. It is for tasks. If it
// fails, v is not in the outbox: with ErrClosed if that is closed.
func (o *Outbox[T]) Put(ctx context.Context, v T) error {
	if err := spindle.Checkpoint(ctx); err != nil {
		return err
	}
	if done, err := o.b.lockedPut(v); done {
		return err
	}
	_, err := o.b.park(ctx, "Outbox.Put", putting, v)
	return err
}

// TryPut is Put that fails with ErrWouldBlock instead of waiting. It is for any
// goroutine.
func (o *Outbox[T]) TryPut(v T) error { return o.b.tryPut(v) }

// Get waits for a value and takes it out. It is for any goroutine. If it fails, it
// has taken none: with ErrClosed if the outbox is closed and empty. In a task, a
// Get that need not wait does not switch.
func (o *Outbox[T]) Get(ctx context.Context) (T, error) { return o.b.anyGet(ctx, "Outbox.Get") }

// TryGet is Get that fails with ErrWouldBlock instead of waiting.
func (o *Outbox[T]) TryGet() (T, error) { return o.b.tryGet() }

// All yields what is got until the outbox is closed and empty. If getting fails
// otherwise, it yields the error and stops. It is for any goroutine.
func (o *Outbox[T]) All(ctx context.Context) iter.Seq2[T, error] { return all(ctx, o.Get, ErrClosed) }

// Close ends the outbox: whoever puts, or waits to, gets ErrClosed at once; whoever
// gets, gets what is left, and then ErrClosed. Closing twice does nothing.
func (o *Outbox[T]) Close() { o.b.close() }

// Statistics tells how the outbox is used now. It is for any goroutine.
func (o *Outbox[T]) Statistics() QueueStatistics { return o.b.statistics() }
