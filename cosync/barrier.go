package cosync

import (
	"context"

	"github.com/spindleloop/spindle"
)

// Barrier is where a number of tasks meet: each waits until all have come. Then
// it is ready for the next meeting. Make one with NewBarrier.
//
// A task whose wait is cancelled leaves, as if it had never come: the others wait
// for one more. That is asyncio's rule. The alternative, to break the barrier for
// all, takes from the others what they waited for; who wants it cancels the
// nursery that they are in.
type Barrier struct {
	home
	parties int
	waiting line[int]
}

// NewBarrier makes a barrier for a number of tasks, at least one.
func NewBarrier(parties int) *Barrier {
	if parties < 1 {
		panic("cosync: NewBarrier for less than one")
	}
	return &Barrier{parties: parties}
}

// Wait waits until all have come, and returns the caller's index among them, in
// the order they came: from 0 to parties-1. So one of them can be chosen for
// what is to be done once.
func (b *Barrier) Wait(ctx context.Context) (int, error) {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return -1, err
	}
	b.admit(w, "Barrier")
	if b.waiting.n == b.parties-1 {
		for i := range b.parties - 1 {
			b.waiting.give(i)
		}
		w.Pass()
		return b.parties - 1, nil
	}
	return b.waiting.wait(ctx, w, "Barrier.Wait", -1)
}

// Statistics returns the present use of the barrier. Capacity is the number of parties.
func (b *Barrier) Statistics() Statistics {
	b.look("Barrier")
	return Statistics{Capacity: b.parties, Waiting: b.waiting.n}
}
