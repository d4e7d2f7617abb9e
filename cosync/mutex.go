package cosync

import (
	"context"

	"github.com/spindleloop/spindle"
)

// Mutex is a lock for tasks: it protects what has to hold across waits. The zero
// Mutex is unlocked. Unlock hands it to the task that waited longest, so that
// nobody can snatch it in between.
type Mutex struct {
	home
	held    bool
	holder  spindle.TaskRef // zero after TryLock
	waiting line[struct{}]
}

// Lock waits until the mutex is the caller's. If it fails, it is not.
func (m *Mutex) Lock(ctx context.Context) error {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return err
	}
	m.admit(w, "Mutex")
	if !m.held {
		m.held, m.holder = true, w.Ref()
		w.Pass()
		return nil
	}
	m.waiting.holder = &m.holder
	_, err = m.waiting.wait(ctx, w, "Mutex.Lock", struct{}{})
	return err
}

// TryLock locks the mutex if nobody holds it.
func (m *Mutex) TryLock() bool {
	m.here("Mutex")
	if m.held {
		return false
	}
	m.held, m.holder = true, spindle.TaskRef{}
	return true
}

// Unlock gives the mutex back. Any task may do it, not only the one that locked
// it. It panics if the mutex is not locked.
func (m *Mutex) Unlock() {
	m.here("Mutex")
	if !m.held {
		panic("cosync: Unlock of a Mutex that is not locked")
	}
	if next := m.waiting.take(); next != nil {
		m.holder = next.waker.Ref()
		next.waker.Wake(nil)
	} else {
		m.held = false
	}
}

// Statistics returns the present use of the mutex.
func (m *Mutex) Statistics() Statistics {
	m.look("Mutex")
	s := Statistics{Capacity: 1, Waiting: m.waiting.n}
	if m.held {
		s.Used = 1
	}
	return s
}
