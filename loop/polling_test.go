package loop

import (
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

// TestPostponedPolls: a poll is postponed while no time passes, at most until pollEvery. After
// a poll, or a wait in its place, that has to be earned again.
func TestPostponedPolls(t *testing.T) {
	clock := &stoppedClock{}
	l := &Loop{k: &kernel.Kernel{Clock: clock}, pollAfter: phaseSize}
	for l.sincePoll = phaseSize; l.sincePoll < pollEvery; l.sincePoll += phaseSize {
		if l.pollDue() {
			t.Fatalf("a poll is due after %d callbacks that took no time", l.sincePoll)
		}
	}
	if !l.pollDue() {
		t.Fatalf("no poll is due after %d callbacks", l.sincePoll)
	}
	if ran := l.beginPoll(); ran != pollEvery || l.pollDue() {
		t.Fatalf("%d callbacks ran", ran)
	}
	l.sincePoll = phaseSize
	clock.now = shortBatch
	if !l.pollDue() {
		t.Error("no poll is due after 61 callbacks that took long")
	}
}

// stoppedClock has a time that only tests change.
type stoppedClock struct {
	kernel.Clock
	now time.Duration
}

func (c *stoppedClock) Mono() time.Duration { return c.now }
