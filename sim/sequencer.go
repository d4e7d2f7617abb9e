package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spindleloop/spindle"
)

// ErrBrokenSequence says that a task was cancelled while it waited for its step,
// so that the steps behind it can never come.
var ErrBrokenSequence = errors.New("sim: the sequence is broken")

// Sequencer has steps of several tasks happen in the order of their numbers: 0,
// 1, 2 and so on, each once. It is Trio's Sequencer. The zero Sequencer is ready
// for use; it is for the tasks of one loop, simulated or not.
type Sequencer struct {
	// Loop goroutine only.
	next   int                  // the step that may begin now, or that is under way
	steps  map[int]*spindle.Lot // those that were asked for; who waits for each
	broken bool
}

// Step waits until the step before n has ended, runs fn as step n, and returns
// its error. Step 0 may begin at once. The step ends with fn, also if fn fails or
// panics. A number that is used twice panics.
//
// If the wait is cancelled, the sequence is broken: it fails, and so does every
// step that has not begun, with ErrBrokenSequence. As in Trio, no scope takes
// that back as its own cancellation: a test that has lost its order must not go
// on as if it had not.
func (q *Sequencer) Step(ctx context.Context, n int, fn func(context.Context) error) error {
	mustBeTask(ctx, "Sequencer.Step")
	if n < 0 {
		panic(fmt.Sprintf("sim: Sequencer.Step with the number %d; the first step is 0", n))
	}
	if q.steps[n] != nil {
		panic(fmt.Sprintf("sim: Sequencer.Step with the number %d for the second time", n))
	}
	if q.broken {
		return ErrBrokenSequence
	}
	if err := q.wait(ctx, n); err != nil {
		q.breakOff()
		return fmt.Errorf("%w: the wait for step %d ended: %w", ErrBrokenSequence, n, err)
	}
	if q.broken {
		return ErrBrokenSequence
	}
	defer func() {
		q.next = n + 1
		if behind := q.steps[q.next]; behind != nil {
			behind.Wake(1)
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

func (q *Sequencer) breakOff() {
	q.broken = true
	for _, n := range slices.Sorted(maps.Keys(q.steps)) { // the same order in every run
		q.steps[n].Wake(1)
	}
}
