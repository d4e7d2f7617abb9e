package either

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle/cosync"
)

// use is which callers an object has: tasks of one loop, or goroutines. The first one decides.
type use struct{ kind atomic.Uint32 }

const (
	byTasks = iota + 1
	byGoroutines
)

// tasks records a use, and reports whether it is one by tasks.
func (u *use) tasks(ctx context.Context, op string) bool {
	kind := uint32(byGoroutines)
	if inTask(ctx) {
		kind = byTasks
	}
	if was := u.kind.Load(); was != kind && (was != 0 || !u.kind.CompareAndSwap(0, kind) && u.kind.Load() != kind) {
		panic("either: " + op + " called by a task and by another goroutine; use a cosync.Inbox between them")
	}
	return kind == byTasks
}

// Mutex is a lock for tasks of one loop, or for goroutines. The zero Mutex is unlocked. Of
// waiting tasks, the one that has waited longest is next.
type Mutex struct {
	use    use
	tasks  cosync.Mutex
	once   sync.Once
	locked chan struct{} // full while a goroutine has the lock
}

// Lock waits until the mutex is free, and locks it. If ctx ends first, it fails and has not
// locked it.
func (m *Mutex) Lock(ctx context.Context) error {
	if m.use.tasks(ctx, "Mutex.Lock") {
		return m.tasks.Lock(ctx)
	}
	m.once.Do(func() { m.locked = make(chan struct{}, 1) })
	if err := Checkpoint(ctx); err != nil {
		return err
	}
	select {
	case m.locked <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock unlocks the mutex. It panics if the mutex is not locked.
func (m *Mutex) Unlock() {
	if m.use.kind.Load() != byGoroutines {
		m.tasks.Unlock()
		return
	}
	select {
	case <-m.locked:
	default:
		panic("either: Mutex.Unlock of an unlocked mutex")
	}
}

// Queue is a bounded queue of values between tasks of one loop, or between goroutines.
type Queue[T any] struct {
	use    use
	tasks  *cosync.Queue[T]
	values chan T // between goroutines

	mu     sync.RWMutex // held for reading by Put, so that no value follows the end
	closed chan struct{}
	once   sync.Once
	unused atomic.Bool // it was closed before its first use
}

// NewQueue makes a queue for a number of values, at least one.
func NewQueue[T any](capacity int) *Queue[T] {
	if capacity < 1 {
		panic("either: NewQueue with a capacity below 1")
	}
	return &Queue[T]{tasks: cosync.NewQueue[T](capacity), values: make(chan T, capacity), closed: make(chan struct{})}
}

// Put waits until v fits into the queue, and puts it there. If Put fails, v is not in the queue.
// It fails with cosync.ErrClosed if the queue is closed.
func (q *Queue[T]) Put(ctx context.Context, v T) error {
	if q.use.tasks(ctx, "Queue.Put") {
		return q.ofTasks().Put(ctx, v)
	}
	q.mu.RLock()
	defer q.mu.RUnlock()
	select {
	case <-q.closed:
		return cosync.ErrClosed
	default:
	}
	if err := Checkpoint(ctx); err != nil {
		return err
	}
	select {
	case q.values <- v:
		return nil
	case <-q.closed:
		return cosync.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Get waits for a value and removes it from the queue. It fails with cosync.ErrClosed if the
// queue is closed and empty.
func (q *Queue[T]) Get(ctx context.Context) (v T, err error) {
	if q.use.tasks(ctx, "Queue.Get") {
		return q.ofTasks().Get(ctx)
	}
	if err := Checkpoint(ctx); err != nil {
		return v, err
	}
	select {
	case v, ok := <-q.values:
		return v, closedUnless(ok)
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}

// ofTasks returns the queue of tasks.
func (q *Queue[T]) ofTasks() *cosync.Queue[T] {
	if q.unused.Load() {
		q.tasks.Close()
	}
	return q.tasks
}

func closedUnless(ok bool) error {
	if !ok {
		return cosync.ErrClosed
	}
	return nil
}

// Close closes the queue. Put fails from then on, even where it already waits. Get returns the
// values that are left, and then fails. Closing a queue again does nothing.
func (q *Queue[T]) Close() {
	if q.use.kind.Load() == byTasks {
		q.tasks.Close()
		return
	}
	q.unused.Store(q.use.kind.Load() == 0)
	q.once.Do(func() {
		close(q.closed) // ends the calls of Put that wait, which hold mu
		q.mu.Lock()
		defer q.mu.Unlock()
		close(q.values)
	})
}
