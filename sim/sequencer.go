package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spindleloop/spindle"
)

// errBrokenSequence reports that a task was cancelled while it waited for its step,
// so that later steps can never begin.
var errBrokenSequence = errors.New("sim: the sequence is broken")

// Sequencer runs steps of several tasks in the order of their numbers: 0, 1, 2 and
// so on, each once. It corresponds to Trio's Sequencer. The zero Sequencer is ready
// to use. It is for the tasks of one loop, simulated or not.
type Sequencer struct {
	// Loop goroutine only.
	next   int                  // the step that may begin now, or that is running
	steps  map[int]*spindle.Lot // the waiter of each step that Step was called with
	broken bool
}

// Step waits until the step before n has ended, runs fn as step n, and returns
// fn's error. Step 0 begins at once. The step ends when fn returns, fails or panics.
// Step panics if n is negative or was used before.
//
// If the wait is cancelled, the sequence is broken: this step and every step that
// has not begun fail. As in Trio, no scope absorbs that error
// as its own cancellation: a test that has lost its order must not continue
// unnoticed.
func (q *Sequencer) Step(ctx context.Context, n int, fn func(context.Context) error) error {
	mustBeTask(ctx, "Sequencer.Step")
	if n < 0 {
		panic(fmt.Sprintf("sim: Sequencer.Step: negative step %d; the first step is 0", n))
	}
	if q.steps[n] != nil {
		panic(fmt.Sprintf("sim: Sequencer.Step: step %d was used before; each step happens once", n))
	}
	if q.broken {
		return errBrokenSequence
	}
	if err := q.wait(ctx, n); err != nil {
		q.breakOff()
		return fmt.Errorf("%w: the wait for step %d ended: %w", errBrokenSequence, n, err)
	}
	if q.broken {
		return errBrokenSequence
	}
	defer func() {
		q.next = n + 1
		if waiter := q.steps[q.next]; waiter != nil {
			waiter.Wake(1)
		}
	}()
	return fn(ctx)
}

// wait waits for the turn of step n.
func (q *Sequencer) wait(ctx context.Context, n int) error {
	lot := new(spindle.Lot)
	if q.steps == nil {
		q.steps = make(map[int]*spindle.Lot)
	}
	q.steps[n] = lot
	if n == q.next {
		return spindle.Checkpoint(ctx)
	}
	return lot.Wait(ctx, fmt.Sprintf("Sequencer step %d", n))
}

// breakOff breaks the sequence and wakes every waiting step.
func (q *Sequencer) breakOff() {
	q.broken = true
	for _, n := range slices.Sorted(maps.Keys(q.steps)) { // the same order in every run
		q.steps[n].Wake(1)
	}
}
