package cosync

import (
	"context"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/loop"
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

// remote wakes a waiter of an Inbox from any goroutine. Guarded by the Inbox's mutex until
// the waiter is woken.
type remote struct {
	toward direction
	l      *loop.Loop    // the task's loop; nil for a goroutine
	post   func()        // wakes the task; called on its loop
	signal chan struct{} // wakes the goroutine; holds one signal
	err    error         // the result of the wait
}

// wake ends the wait. It returns false if the loop of the waiting task is closed: then the
// task no longer exists. If the loop is closed later, Close wakes the task first.
func (f *remote) wake(err error) bool {
	f.err = err
	if f.l == nil {
		f.signal <- struct{}{} // does not block: a wait has one signal
		return true
	}
	return f.l.Internal().Post(atclose.Run, f.post) == nil
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
	if spindle.Current(ctx) != nil {
		return b.park(ctx, d, v)
	}
	if loop.Internal().Current() != nil {
		panic("cosync: " + d.String() + " would block the loop: in a task, pass the task's ctx; in a callback, use TryPut or TryGet")
	}
	return b.block(ctx, d, v)
}

// park waits in a task.
func (b *Inbox[T]) park(ctx context.Context, d direction, v T) (T, error) {
	waker, err := spindle.NewWaker(ctx)
	if err != nil {
		return v, err
	}
	w := b.waiter(d, v)
	w.remote.l, w.waker = spindle.LoopOf(ctx), waker
	b.join(w)
	err = waker.Park(ctx, d.String(), w)
	v = w.value
	b.release(w)
	return v, err
}

// block waits in a goroutine.
func (b *Inbox[T]) block(ctx context.Context, d direction, v T) (T, error) {
	w := b.waiter(d, v)
	defer b.release(w)
	b.join(w)
	select {
	case <-w.remote.signal:
	case <-ctx.Done():
		if w.abort() {
			var zero T
			return zero, context.Cause(ctx)
		}
		<-w.remote.signal
	}
	return w.value, w.remote.err
}

// join adds w to its queue, or serves it if that has become possible meanwhile.
func (b *Inbox[T]) join(w *waiter[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var done bool
	var err error
	if w.remote.toward == putting {
		done, err = b.put(w.value)
	} else {
		w.value, done, err = b.get()
	}
	if done {
		w.remote.wake(err)
		return
	}
	b.queues[w.remote.toward].push(w)
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
		w = &waiter[T]{remote: &remote{signal: make(chan struct{}, 1)}}
		w.remote.post = func() { w.waker.Wake(w.remote.err) }
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
	w.value, w.remote.l, w.remote.err = zero, nil, nil
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spares < keepSpare {
		b.spare, w.next = w, b.spare
		b.spares++
	}
}
