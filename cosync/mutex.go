package cosync

import (
	"context"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
)

// Mutex is a lock for tasks. It protects state that must not change across waits. The zero
// Mutex is unlocked. Unlock hands the mutex to the task that has waited longest, so that
// no other task can lock it in between.
type Mutex struct {
	affinity
	held    bool
	holder  coro.Ref // zero after TryLock
	waiting waitQueue[struct{}]
}

// Lock waits until the caller holds the mutex. If Lock fails, the caller does not.
func (m *Mutex) Lock(ctx context.Context) error {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return err
	}
	m.checkTask(w, "Mutex")
	if !m.held {
		m.held, m.holder = true, coro.Waker(w).Ref()
		w.Pass()
		return nil
	}
	m.waiting.holder, m.waiting.object = &m.holder, (*mutexProbe)(m)
	_, err = m.waiting.wait(ctx, w, "Mutex.Lock", struct{}{})
	return err
}

// TryLock locks the mutex if it is unlocked. It reports whether it did.
func (m *Mutex) TryLock() bool {
	m.checkCaller("Mutex")
	if m.held {
		return false
	}
	m.held, m.holder = true, coro.Ref{}
	return true
}

// Unlock unlocks the mutex. Any task may call it, not only the one that locked the mutex.
// It panics if the mutex is not locked.
func (m *Mutex) Unlock() {
	m.checkCaller("Mutex")
	if !m.held {
		panic("cosync: Unlock of a Mutex that is not locked")
	}
	if next := m.waiting.take(); next != nil {
		m.holder = coro.Waker(next.waker).Ref()
		next.waker.Wake(nil)
	} else {
		m.held = false
	}
}
