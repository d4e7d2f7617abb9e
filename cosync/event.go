package cosync

import (
	"context"
	"math"

	"github.com/spindleloop/spindle"
)

// Event is a flag that tasks can wait for. The zero Event is not set.
type Event struct {
	affinity
	set     bool
	waiting countedLot
}

// Set sets the event and wakes all tasks that wait for it.
func (e *Event) Set() {
	e.checkCaller("Event")
	e.set = true
	e.waiting.wake(math.MaxInt)
}

// Clear resets the event. Calls of Wait from now on wait for the next Set. Tasks that Set
// has woken continue.
func (e *Event) Clear() {
	e.checkCaller("Event")
	e.set = false
}

// IsSet reports whether the event is set.
func (e *Event) IsSet() bool {
	e.checkReader("Event")
	return e.set
}

// Wait waits until the event is set. The event may have been cleared again when Wait
// returns. If that matters, make a new Event instead of clearing one.
func (e *Event) Wait(ctx context.Context) error {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return err
	}
	e.checkTask(w, "Event")
	if e.set {
		w.Pass()
		return nil
	}
	return e.waiting.wait(ctx, "Event.Wait")
}
