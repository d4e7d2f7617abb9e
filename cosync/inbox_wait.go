package cosync

import (
	"context"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/onloop"
)

// direction is what a waiter of an Inbox waits to do. It is an index of Inbox.queues.
type direction uint8

const (
	putting direction = iota
	getting
)

func (d direction) String() string {
	if d == putting {
		return "Inbox.Put"
	}
	return "Inbox.Get"
}

// refused is the panic message for a caller that would block the loop.
func (d direction) refused() string {
	if d == putting {
		return "cosync: Inbox.Put" + wouldBlock
	}
	return "cosync: Inbox.Get" + wouldBlock
}

const wouldBlock = " would block the loop: in a task, pass the task's ctx; in a callback, use TryPut or TryGet"

// remote wakes a waiter of an Inbox from any goroutine. Guarded by the Inbox's mutex until
// the waiter is woken.
type remote struct {
	onloop.Parker
	toward direction
	err    error // the result of the wait
}

// wake ends the wait. It returns false if the task that waited is gone with its loop. If the
// loop is closed later, Close wakes the task first.
func (f *remote) wake(err error) bool {
	f.err = err
	return f.Wake()
}

// checkpoint fails if ctx is cancelled. The caller may be a task or a goroutine.
func checkpoint(ctx context.Context) error {
	if spindle.Current(ctx) != nil { // a goroutine may well have a task's ctx
		return spindle.Checkpoint(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// wait waits until the inbox has space for v, or has a value.
func (b *Inbox[T]) wait(ctx context.Context, d direction, v T) (T, error) {
	if b.capacity == 0 { // no value will ever fit
		panic("cosync: Inbox not made by NewInbox")
	}
	w := b.waiter(d, v)
	err := w.remote.Prepare(ctx, d.refused())
	if err == nil {
		err = b.join(ctx, w)
	}
	v = w.value
	b.release(w)
	return v, err
}

// join adds w to its queue and waits, or serves it if that has become possible meanwhile.
func (b *Inbox[T]) join(ctx context.Context, w *waiter[T]) (err error) {
	b.mu.Lock()
	var done bool
	if w.remote.toward == putting {
		done, err = b.put(w.value)
	} else {
		w.value, done, err = b.get()
	}
	if !done {
		b.queues[w.remote.toward].push(w)
	}
	b.mu.Unlock()
	if done {
		w.remote.Pass()
		return err
	}
	if err := w.remote.Park(ctx, w.remote.toward.String(), w); err != nil {
		return err
	}
	return w.remote.err
}

func (b *Inbox[T]) waiter(d direction, v T) *waiter[T] {
	b.mu.Lock()
	w := b.spare
	if w != nil {
		b.spare, w.next = w.next, nil
		b.spares--
	}
	b.mu.Unlock()
	if w == nil {
		w = &waiter[T]{remote: &remote{}}
		w.abort = func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return w.leave()
		}
	}
	w.value, w.remote.toward = v, d
	return w
}

func (b *Inbox[T]) release(w *waiter[T]) {
	var zero T
	w.value, w.remote.err = zero, nil
	w.remote.Release()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spares < keepSpare {
		b.spare, w.next = w, b.spare
		b.spares++
	}
}
