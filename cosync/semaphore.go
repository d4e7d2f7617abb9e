package cosync

import (
	"context"

	"github.com/spindleloop/spindle"
)

// Semaphore is a number of permits. Make one with NewSemaphore.
type Semaphore struct {
	home
	count   int
	free    int
	waiting crowd
}

// NewSemaphore makes a semaphore with count permits, at least one.
func NewSemaphore(count int) *Semaphore {
	if count < 1 {
		panic("cosync: NewSemaphore with a count below 1")
	}
	return &Semaphore{count: count, free: count}
}

// Acquire waits for a permit. If it fails, it has none.
func (s *Semaphore) Acquire(ctx context.Context) error {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return err
	}
	s.admit(w, "Semaphore")
	if s.free > 0 {
		s.free--
		w.Pass()
		return nil
	}
	return s.waiting.wait(ctx, "Semaphore.Acquire")
}

// TryAcquire takes a permit if there is one.
func (s *Semaphore) TryAcquire() bool {
	s.here("Semaphore")
	if s.free == 0 {
		return false
	}
	s.free--
	return true
}

// Release gives a permit back, to the task that waited longest if one does. It
// panics if all permits are there: one was released twice, and two tasks would
// go on with the same.
func (s *Semaphore) Release() {
	s.here("Semaphore")
	if s.free == s.count {
		panic("cosync: Release of a Semaphore of which no permit is taken")
	}
	if s.waiting.wake(1) == 0 {
		s.free++
	}
}

// Statistics returns the present use of the semaphore.
func (s *Semaphore) Statistics() Statistics {
	s.look("Semaphore")
	return Statistics{Used: s.count - s.free, Capacity: s.count, Waiting: s.waiting.n}
}
