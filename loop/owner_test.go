package loop

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// TestLoopBelongsToTheCallerOfRunAgain checks the time from the end of the goroutine that ran the callbacks to the end of Run.
// Meanwhile the runtime may give the identity of that goroutine to a new one.
func TestLoopBelongsToTheCallerOfRunAgain(t *testing.T) {
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.enter("Run")
	defer l.leave()
	l.ended = new(atomic.Bool)
	l.CallSoon(runtime.Goexit)
	for _, want := range []bool{true, false} {
		if exited := contain(l.serve); exited != want {
			t.Fatalf("serve by Goexit: %v, want %v", exited, want)
		}
		if !l.Owns() {
			t.Errorf("after serve, by Goexit %v, another goroutine owns the loop", want)
		}
		l.ended.Store(true)
	}
}
