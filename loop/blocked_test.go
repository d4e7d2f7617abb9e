package loop_test

import (
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/loop"
)

// A turn is noted as starved, and then again as blocked. Both rows end with it.
func TestTurnThatIsNotedTwiceEnds(t *testing.T) {
	c := newLoop(t, loop.Options{}).Internal()
	c.NoteBlocked(probe.BlockedTurn{For: 1, Starved: true})
	c.EndBlocked(time.Second)
	c.NoteBlocked(probe.BlockedTurn{For: 2, Starved: true})
	c.NoteBlocked(probe.BlockedTurn{For: 3})
	c.EndBlocked(time.Minute)
	turns, total := c.BlockedTurns()
	if total != 3 || len(turns) != 3 {
		t.Fatalf("%d turns: %+v", total, turns)
	}
	for i, want := range []time.Duration{time.Second, time.Minute, time.Minute} {
		if !turns[i].Ended || turns[i].For != want {
			t.Errorf("turn %d is %+v", i, turns[i])
		}
	}
}
