package cosync

import (
	"context"
	"math"

	"github.com/spindleloop/spindle"
)

// Event is a bit that tasks can wait for. The zero Event is not set.
type Event struct {
	home
	set     bool
	waiting crowd
}

// Set sets the event and wakes all who wait for it.
func (e *Event) Set() {
	e.here("Event")
	e.set = true
	e.waiting.wake(math.MaxInt)
}

// Clear takes the event back: waits that begin from now on wait for the next
// Set. Those that Set has woken go on.
func (e *Event) Clear() {
	e.here("Event")
	e.set = false
}

// IsSet tells whether the event is set.
func (e *Event) IsSet() bool {
	e.look("Event")
	return e.set
}

// Wait waits until the event is set. It may have been cleared again when Wait
// returns; where that matters, make a new Event instead of clearing one.
func (e *Event) Wait(ctx context.Context) error {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return err
	}
	e.admit(w, "Event")
	if e.set {
		w.Pass()
		return nil
	}
	return e.waiting.wait(ctx, "Event.Wait")
}

// Statistics returns the present use of the event.
func (e *Event) Statistics() Statistics {
	e.look("Event")
	return Statistics{Waiting: e.waiting.n}
}
