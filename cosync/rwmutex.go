package cosync

import (
	"context"
	"slices"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
)

// RWMutex is a lock for tasks that any number of readers, or one writer, can hold. The
// zero RWMutex is unlocked. Tasks get it in the order of their calls: readers behind a
// waiting writer wait too, so neither kind starves.
//
// As with sync.RWMutex, a task must not read-lock it twice: a writer that comes in between
// waits for the first lock, and the second lock waits for the writer.
type RWMutex struct {
	taskAffinity
	readers int
	writing bool
	known   []coro.Ref        // readers that are tasks, at most maxKnown, for an inspector
	writer  coro.Ref          // the holder; zero after TryLock and while readers hold it
	waiting waitQueue[access] // readers and writers, in order
}

// access is the kind of lock that a task requests of an RWMutex.
type access uint8

const (
	toRead access = iota
	toWrite
)

// Lock waits until the caller alone holds the lock. If it fails, the caller does not.
func (m *RWMutex) Lock(ctx context.Context) error { return m.lock(ctx, toWrite, "RWMutex.Lock") }

// RLock waits until the caller holds the lock, alone or with other readers. If it
// fails, the caller does not.
func (m *RWMutex) RLock(ctx context.Context) error { return m.lock(ctx, toRead, "RWMutex.RLock") }

func (m *RWMutex) lock(ctx context.Context, a access, op string) error {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return err
	}
	m.checkTask(w, "RWMutex")
	if m.take(a) {
		m.held(a, w)
		w.Pass()
		return nil
	}
	m.waiting.holder, m.waiting.object = &m.writer, (*rwmutexProbe)(m)
	if _, err = m.waiting.wait(ctx, w, op, a); err != nil {
		m.admitWaiting() // readers may have waited behind the task
	}
	return err
}

// TryLock locks the mutex for writing if no task holds it or waits for it. It reports
// whether it did.
func (m *RWMutex) TryLock() bool {
	m.checkCaller("RWMutex")
	return m.take(toWrite)
}

// TryRLock locks the mutex for reading if no writer holds it and no task waits for it. It
// reports whether it did.
func (m *RWMutex) TryRLock() bool {
	m.checkCaller("RWMutex")
	if !m.take(toRead) {
		return false
	}
	if m.tasks != nil {
		m.reads(m.tasks.Running().Ref())
	}
	return true
}

// take takes the lock for a new caller, unless other tasks wait.
func (m *RWMutex) take(a access) bool { return m.waiting.first == nil && m.grant(a) }

// grant takes the lock if the present holders allow it.
func (m *RWMutex) grant(a access) bool {
	switch {
	case m.writing, a == toWrite && m.readers > 0:
		return false
	case a == toWrite:
		m.writing = true
	default:
		m.readers++
	}
	return true
}

// held records that the task of w has the lock.
func (m *RWMutex) held(a access, w spindle.Waker) {
	if a == toWrite {
		m.writer = coro.Waker(w).Ref()
		return
	}
	m.reads(coro.Waker(w).Ref())
}

// maxKnown is how many readers are known.
const maxKnown = 16

// reads notes that a task has the lock for reading.
func (m *RWMutex) reads(task coro.Ref) {
	if task != (coro.Ref{}) && len(m.known) < maxKnown {
		m.known = append(m.known, task)
	}
}

// hasRead notes that the caller gives the lock up. If it is none of the readers, any of
// them may have told it to, so that none is known any more.
func (m *RWMutex) hasRead() {
	if len(m.known) == 0 {
		return
	}
	caller := m.tasks.Running().Ref()
	for i, task := range m.known {
		if task == caller {
			m.known = slices.Delete(m.known, i, i+1)
			return
		}
	}
	if len(m.known) == m.readers {
		m.known = m.known[:0]
	}
}

// Unlock unlocks the mutex for writing. Any task may call it, not only the one that locked
// the mutex. It panics if no writer holds the mutex.
func (m *RWMutex) Unlock() {
	m.checkCaller("RWMutex")
	if !m.writing {
		panic("cosync: Unlock of an RWMutex that is not locked")
	}
	m.writing, m.writer = false, coro.Ref{}
	m.admitWaiting()
}

// RUnlock undoes one RLock. It panics if no reader holds the mutex.
func (m *RWMutex) RUnlock() {
	m.checkCaller("RWMutex")
	if m.readers == 0 {
		panic("cosync: RUnlock of an RWMutex that is not read-locked")
	}
	m.hasRead()
	m.readers--
	m.admitWaiting()
}

// admitWaiting gives the lock to the first waiters that can have it now: one writer, or
// all readers up to the next writer.
func (m *RWMutex) admitWaiting() {
	for w := m.waiting.first; w != nil && m.grant(w.value); w = m.waiting.first {
		m.held(w.value, w.waker)
		m.waiting.take().waker.Wake(nil)
	}
}
