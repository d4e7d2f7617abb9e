package goid_test

import (
	"context"
	"runtime/pprof"
	"sync"
	"testing"

	"github.com/spindleloop/spindle/internal/goid"
)

// TestWordsOfGoroutinesDoNotRace: the runtime uses a g again for another goroutine. That is no
// race between the two.
func TestWordsOfGoroutinesDoNotRace(t *testing.T) {
	labelled := pprof.WithLabels(context.Background(), pprof.Labels("spindle", "search"))
	labels := goid.FindWord(func(is func(set bool)) {
		pprof.SetGoroutineLabels(context.Background())
		is(false)
		pprof.SetGoroutineLabels(labelled)
		is(true)
		pprof.SetGoroutineLabels(context.Background())
		is(false)
	})
	if labels < 0 {
		t.Skip("the labels are not found in a g here")
	}
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			g := goid.Current()
			goid.SetWord(g, labels, goid.Word(g, labels))
		})
	}
	wg.Wait()
}
