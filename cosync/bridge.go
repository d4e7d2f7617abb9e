package cosync

import (
	"context"
	"sync"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// bridge is a bounded queue between goroutines and tasks of any loops: what Inbox
// and Outbox are made of. A value is given to a waiter under the lock; to wake it,
// a task is posted to its loop, a goroutine gets a signal. Any goroutine.
type bridge[T any] struct {
	capacity int // set when made

	mu     sync.Mutex
	kept   ring[T]    // guarded by mu, as all below
	lines  [2]line[T] // putting, getting
	spare  *waiter[T] // waiters that are not in use
	spares int
	closed bool
}

// direction is what somebody waits for: an index of a bridge's lines.
type direction uint8

const (
	putting direction = iota
	getting
)

// far is how a waiter of a bridge is woken, from any goroutine.
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

// put and get are to be called with the lock held.

func (b *bridge[T]) put(v T) (done bool, err error) {
	if b.closed {
		return true, ErrClosed
	}
	for w := b.lines[getting].take(); w != nil; w = b.lines[getting].take() {
		w.value = v
		if w.far.wake(nil) {
			return true, nil
		}
	}
	if b.kept.n == b.capacity {
		return false, nil
	}
	b.kept.push(v)
	return true, nil
}

func (b *bridge[T]) get() (v T, done bool, err error) {
	if b.kept.n == 0 {
		if b.closed {
			err = ErrClosed
		}
		return v, b.closed, err
	}
	v = b.kept.pop()
	if w := b.lines[putting].take(); w != nil {
		b.kept.push(w.value)
		w.far.wake(nil)
	}
	return v, true, nil
}

func (b *bridge[T]) lockedPut(v T) (done bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.put(v)
}

func (b *bridge[T]) lockedGet() (v T, done bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.get()
}

func (b *bridge[T]) tryPut(v T) error {
	done, err := b.lockedPut(v)
	if !done {
		return ErrWouldBlock
	}
	return err
}

func (b *bridge[T]) tryGet() (T, error) {
	v, done, err := b.lockedGet()
	if !done {
		err = ErrWouldBlock
	}
	return v, err
}

// anyPut is put for a caller who may be a task or not.
func (b *bridge[T]) anyPut(ctx context.Context, what string, v T) error {
	if err := checkpoint(ctx); err != nil {
		return err
	}
	if done, err := b.lockedPut(v); done {
		return err
	}
	_, err := b.wait(ctx, what, putting, v)
	return err
}

// anyGet is get for a caller who may be a task or not.
func (b *bridge[T]) anyGet(ctx context.Context, what string) (v T, err error) {
	if err := checkpoint(ctx); err != nil {
		return v, err
	}
	if v, done, err := b.lockedGet(); done {
		return v, err
	}
	return b.wait(ctx, what, getting, v)
}

// checkpoint is spindle's for a caller who may be a task or not.
func checkpoint(ctx context.Context) error {
	if spindle.Current(ctx) != nil { // a goroutine may well have a task's ctx
		return spindle.Checkpoint(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (b *bridge[T]) wait(ctx context.Context, what string, d direction, v T) (T, error) {
	if spindle.Current(ctx) != nil {
		return b.park(ctx, what, d, v)
	}
	return b.block(ctx, d, v)
}

// park waits in a task.
func (b *bridge[T]) park(ctx context.Context, what string, d direction, v T) (T, error) {
	waker, err := spindle.NewWaker(ctx)
	if err != nil {
		return v, err
	}
	w := b.waiter(d, v)
	w.far.l, w.waker = spindle.LoopOf(ctx), waker
	b.join(w)
	err = waker.Park(ctx, what, w)
	v = w.value
	b.release(w)
	return v, err
}

// block waits in a goroutine.
func (b *bridge[T]) block(ctx context.Context, d direction, v T) (T, error) {
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
func (b *bridge[T]) join(w *waiter[T]) {
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

func (b *bridge[T]) waiter(d direction, v T) *waiter[T] {
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

func (b *bridge[T]) release(w *waiter[T]) {
	var zero T
	w.value, w.far.l, w.far.err = zero, nil, nil
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spares < keepSpare {
		b.spare, w.next = w, b.spare
		b.spares++
	}
}

func (b *bridge[T]) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for d := range b.lines {
		for w := b.lines[d].take(); w != nil; w = b.lines[d].take() {
			w.far.wake(ErrClosed)
		}
	}
}

func (b *bridge[T]) statistics() QueueStatistics {
	b.mu.Lock()
	defer b.mu.Unlock()
	return QueueStatistics{
		Length: b.kept.n, Capacity: b.capacity,
		Putting: b.lines[putting].n, Getting: b.lines[getting].n, Closed: b.closed,
	}
}
