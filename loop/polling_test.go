package loopcore

import (
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

// TestPostponedPolls: a poll is postponed while no time passes, at most until PollEvery. After
// a poll, or a wait in its place, that has to be earned again.
func TestPostponedPolls(t *testing.T) {
	clock := &stoppedClock{}
	c := &Loop{config: Config{Kernel: &kernel.Kernel{Clock: clock}}, pollAfter: PhaseSize}
	for c.SincePoll = PhaseSize; c.SincePoll < PollEvery; c.SincePoll += PhaseSize {
		if c.PollDue() {
			t.Fatalf("a poll is due after %d callbacks that took no time", c.SincePoll)
		}
	}
	if !c.PollDue() {
		t.Fatalf("no poll is due after %d callbacks", c.SincePoll)
	}
	if ran := c.BeginPoll(); ran != PollEvery || c.PollDue() {
		t.Fatalf("%d callbacks ran", ran)
	}
	c.SincePoll = PhaseSize
	clock.now = shortBatch
	if !c.PollDue() {
		t.Error("no poll is due after 61 callbacks that took long")
	}
}

// stoppedClock has a time that only tests change.
type stoppedClock struct {
	kernel.Clock
	now time.Duration
}

func (c *stoppedClock) Mono() time.Duration { return c.now }
