package cosync

import (
	"context"

	"github.com/spindleloop/spindle"
)

// Semaphore bounds how many tasks do something at the same time, by a number of permits.
// Make one with NewSemaphore.
type Semaphore struct {
	affinity
	count   int
	free    int
	waiting countedLot
}

// NewSemaphore makes a semaphore with count permits, at least one.
func NewSemaphore(count int) *Semaphore {
	if count < 1 {
		panic("cosync: NewSemaphore with a count below 1")
	}
	return &Semaphore{count: count, free: count}
}

// Acquire waits for a permit. If it fails, the caller has none.
func (s *Semaphore) Acquire(ctx context.Context) error {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return err
	}
	s.checkTask(w, "Semaphore")
	if s.free > 0 {
		s.free--
		w.Pass()
		return nil
	}
	if s.count == 0 { // no permit will ever be free
		panic("cosync: Semaphore not made by NewSemaphore")
	}
	return s.waiting.wait(ctx, "Semaphore.Acquire")
}

// TryAcquire takes a permit if one is free. It reports whether it did.
func (s *Semaphore) TryAcquire() bool {
	s.checkCaller("Semaphore")
	if s.free == 0 {
		return false
	}
	s.free--
	return true
}

// Release returns a permit. The task that has waited longest gets it. Release panics if no
// permit is taken: then one was returned twice, and two tasks would share it.
func (s *Semaphore) Release() {
	s.checkCaller("Semaphore")
	if s.free == s.count {
		panic("cosync: Release of a Semaphore that has all its permits")
	}
	if s.waiting.wake(1) == 0 {
		s.free++
	}
}

// Statistics returns the present use of the semaphore.
func (s *Semaphore) Statistics() Statistics {
	s.checkReader("Semaphore")
	return Statistics{Used: s.count - s.free, Capacity: s.count, Waiting: s.waiting.n}
}
