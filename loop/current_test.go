package loop_test

import (
	"testing"

	"github.com/spindleloop/spindle/loop"
)

func TestCurrentIsTheLoopOfTheCaller(t *testing.T) {
	a, b := newLoop(t, loop.Options{}), newLoop(t, loop.Options{})
	if loop.Current() != nil {
		t.Error("a goroutine that runs no loop has one")
	}
	for _, l := range []*loop.Loop{a, b} {
		elsewhere := make(chan *loop.Loop)
		l.CallSoon(func() {
			if loop.Current() != l {
				t.Error("a callback has another loop than its own")
			}
			go func() { elsewhere <- loop.Current() }()
			if <-elsewhere != nil {
				t.Error("a goroutine that a callback has started is on its loop")
			}
			l.Stop()
		})
		run(t, l)
	}
	if loop.Current() != nil {
		t.Error("the loop has ended")
	}
}
