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
