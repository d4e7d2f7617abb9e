package demo

import (
	"testing"

	"github.com/spindleloop/spindle/loop"
)

// TestLastWordsAreNotMissed: what is said when the last one leaves may find a loop that
// has stopped. That is no failure of the server.
func TestLastWordsAreNotMissed(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := newRoom()
	r.hallOf(l)
	r.say(line{Text: "she has left"})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
