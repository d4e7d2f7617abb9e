package cosync

import (
	"context"

	"github.com/spindleloop/spindle"
)

// Barrier makes a fixed number of tasks wait for each other: Wait returns when all have
// called it. The barrier can then be used again. Make one with NewBarrier.
//
// If a wait is cancelled, its task leaves the barrier, and the others wait for one more.
// That is asyncio's rule. The alternative, to break the barrier for all, would fail the
// waits of tasks that were not cancelled. To end all waits, cancel the nursery of the
// tasks.
type Barrier struct {
	affinity
	parties int
	waiting waitQueue[int]
}

// NewBarrier makes a barrier for the given number of tasks, at least one.
func NewBarrier(parties int) *Barrier {
	if parties < 1 {
		panic("cosync: NewBarrier for less than one task")
	}
	return &Barrier{parties: parties}
}

// Wait waits until all tasks have called it. It returns the caller's index, in the order
// of the calls, from 0 to parties-1: the task with index 0, for example, can do what is to
// be done once.
func (b *Barrier) Wait(ctx context.Context) (int, error) {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return -1, err
	}
	b.checkTask(w, "Barrier")
	if b.parties == 0 {
		panic("cosync: Barrier not made by NewBarrier")
	}
	if b.waiting.n == b.parties-1 {
		for i := range b.parties - 1 {
			b.waiting.give(i)
		}
		w.Pass()
		return b.parties - 1, nil
	}
	b.waiting.object = (*barrierProbe)(b)
	return b.waiting.wait(ctx, w, "Barrier.Wait", -1)
}
