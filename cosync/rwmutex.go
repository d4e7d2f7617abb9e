package cosync

import (
	"context"

	"github.com/spindleloop/spindle"
)

// RWMutex is a lock for tasks that any number of readers, or one writer, can hold. The
// zero RWMutex is unlocked. Tasks get it in the order in which they asked: a writer
// that waits holds up the readers behind it, so neither kind starves.
//
// Like sync.RWMutex it must not be read-locked twice by one task: a writer that asks in
// between waits for the first lock, and the second waits for the writer.
type RWMutex struct {
	home
	readers int
	writing bool
	writer  spindle.TaskRef // that holds it; zero after TryLock and while readers do
	waiting line[access]    // readers and writers, in order
}

// access is what a task asks of an RWMutex.
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
	m.admit(w, "RWMutex")
	if m.take(a) {
		m.held(a, w)
		w.Pass()
		return nil
	}
	m.waiting.holder = &m.writer
	if _, err = m.waiting.wait(ctx, w, op, a); err != nil {
		m.admitWaiting() // the task may have held up readers behind it
	}
	return err
}

// TryLock locks the mutex for writing if no task holds it or waits for it.
func (m *RWMutex) TryLock() bool {
	m.here("RWMutex")
	return m.take(toWrite)
}

// TryRLock locks the mutex for reading if no writer holds it and no task waits for it.
func (m *RWMutex) TryRLock() bool {
	m.here("RWMutex")
	return m.take(toRead)
}

// take takes the lock for a newcomer, which overtakes no task that waits.
func (m *RWMutex) take(a access) bool { return m.waiting.first == nil && m.grant(a) }

// grant takes the lock, if what is held allows it.
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

// held notes that the task of w has got the lock.
func (m *RWMutex) held(a access, w spindle.Waker) {
	if a == toWrite {
		m.writer = w.Ref()
	}
}

// Unlock gives the lock of a writer back. Any task may do it, not only the one that
// locked it. It panics if no writer holds the mutex.
func (m *RWMutex) Unlock() {
	m.here("RWMutex")
	if !m.writing {
		panic("cosync: Unlock of an RWMutex that is not locked")
	}
	m.writing, m.writer = false, spindle.TaskRef{}
	m.admitWaiting()
}

// RUnlock gives one lock of a reader back. It panics if no reader holds the mutex.
func (m *RWMutex) RUnlock() {
	m.here("RWMutex")
	if m.readers == 0 {
		panic("cosync: RUnlock of an RWMutex that is not read-locked")
	}
	m.readers--
	m.admitWaiting()
}

// admitWaiting gives the lock to the tasks at the head of the line that can have it
// now: one writer, or all readers up to the next writer.
func (m *RWMutex) admitWaiting() {
	for w := m.waiting.first; w != nil && m.grant(w.value); w = m.waiting.first {
		m.held(w.value, w.waker)
		m.waiting.take().waker.Wake(nil)
	}
}

// Statistics returns the present use of the mutex. Used counts its readers, or its
// writer; their number has no limit.
func (m *RWMutex) Statistics() Statistics {
	m.look("RWMutex")
	s := Statistics{Used: m.readers, Capacity: Unlimited, Waiting: m.waiting.n}
	if m.writing {
		s.Used = 1
	}
	return s
}
