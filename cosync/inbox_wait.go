package cosync

import (
	"context"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// direction is what a waiter of an Inbox waits to do. It is an index of Inbox.lines.
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

// far wakes a waiter of an Inbox from any goroutine.
type far struct {
	toward direction
	l      *loop.Loop    // of the task; nil for a goroutine
	post   func()        // wakes the task, on its loop
	signal chan struct{} // wakes the goroutine
	err    error         // how the wait ends
}

// wake ends the wait. It reports whether the waiter is still there: the loop of a task
// may be closed. If it is closed later, Close still wakes the task first.
func (f *far) wake(err error) bool {
	f.err = err
	if f.l == nil {
		f.signal <- struct{}{} // has room for the one there is in a wait
		return true
	}
	return f.l.PostWith(loop.RunAtClose, f.post) == nil
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
	if spindle.Current(ctx) != nil {
		return b.park(ctx, d, v)
	}
	if loop.Current() != nil {
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
	w.far.l, w.waker = spindle.LoopOf(ctx), waker
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
	case <-w.far.signal:
	case <-ctx.Done():
		if w.abort() {
			var zero T
			return zero, context.Cause(ctx)
		}
		<-w.far.signal
	}
	return w.value, w.far.err
}

// join puts w in line, or serves it if that has become possible.
func (b *Inbox[T]) join(w *waiter[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var done bool
	var err error
	if w.far.toward == putting {
		done, err = b.put(w.value)
	} else {
		w.value, done, err = b.get()
	}
	if done {
		w.far.wake(err)
		return
	}
	b.lines[w.far.toward].push(w)
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
		w = &waiter[T]{far: &far{signal: make(chan struct{}, 1)}}
		w.far.post = func() { w.waker.Wake(w.far.err) }
		w.abort = func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return w.leave()
		}
	}
	w.value, w.far.toward = v, d
	return w
}

func (b *Inbox[T]) release(w *waiter[T]) {
	var zero T
	w.value, w.far.l, w.far.err = zero, nil, nil
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spares < keepSpare {
		b.spare, w.next = w, b.spare
		b.spares++
	}
}
