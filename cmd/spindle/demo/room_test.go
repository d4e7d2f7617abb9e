package demo

import (
	"testing"

	"github.com/spindleloop/spindle/loop"
)

// TestLinesToAStoppedLoopAreNotLost sends a line to a loop that has stopped, as happens when
// the last member leaves. Closing the loop must not report it as lost.
func TestLinesToAStoppedLoopAreNotLost(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := newRoom()
	r.socketsOf(l)
	r.say(line{Text: "she has left"})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
