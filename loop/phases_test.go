package loop_test

import (
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/loop"
)

// A loop with few turns shows the time in which it waited, although no turn of it may have
// been measured.
func TestWaitsOfALoopWithFewTurnsAreMeasured(t *testing.T) {
	l, err := loop.New(loop.Options{Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := &probe.Phases{Began: l.Time()}
	l.Internal().SetPhases(p)
	const pause = 20 * time.Millisecond
	n := 0
	var again func()
	again = func() {
		if n++; n == 3 {
			l.Stop()
			return
		}
		l.CallLater(pause, again)
	}
	again()
	if err := l.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if p.Wait < pause || p.Wait > l.Time()-p.Began {
		t.Errorf("the loop has waited for %v of %v", p.Wait, l.Time()-p.Began)
	}
}
