package loop_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
)

func TestCallSoonKeepsOrder(t *testing.T) {
	l := newLoop(t, loop.Options{})
	var got []int
	for i := range 1000 {
		l.CallSoon(func() { got = append(got, i) })
	}
	l.CallSoon(l.Stop)
	run(t, l)
	if len(got) != 1000 || !slices.IsSorted(got) {
		t.Fatalf("%d ran, sorted %v", len(got), slices.IsSorted(got))
	}
}

func TestCallSoonIsNeverInsideTheCall(t *testing.T) {
	l := newLoop(t, loop.Options{})
	inside := false
	l.CallSoon(func() {
		inside = true
		l.CallSoon(func() {
			if inside {
				t.Error("ran inside the callback that scheduled it")
			}
			l.Stop()
		})
		inside = false
	})
	run(t, l)
}

func TestPrioritiesWithinATurn(t *testing.T) {
	l := newLoop(t, loop.Options{})
	order := ""
	note := func(s string) func() { return func() { order += s } }
	l.CallSoonPriority(loop.Low, note("l"))
	l.CallSoon(note("n"))
	l.CallSoonPriority(loop.High, note("h"))
	if _, err := l.RunOnce(0); err != nil || order != "hnl" {
		t.Fatalf("order %q, %v", order, err)
	}
}

// TestLowerLanesRunUnderAFlood keeps the High lane full: all callbacks of Normal and Low
// must run, and High must still get most of the time.
func TestLowerLanesRunUnderAFlood(t *testing.T) {
	l := newLoop(t, loop.Options{})
	high, others := 0, 0
	var flood func()
	flood = func() {
		high++
		l.CallSoonPriority(loop.High, flood)
	}
	for range 200 {
		l.CallSoonPriority(loop.High, flood)
	}
	const each = 100
	for range each {
		l.CallSoon(func() { others++ })
		l.CallSoonPriority(loop.Low, func() {
			if others++; others == 2*each {
				l.Stop()
			}
		})
	}
	run(t, l)
	if high < 5*others {
		t.Fatalf("High ran %d times, the others %d times", high, others)
	}
}

func TestHandleCancel(t *testing.T) {
	l := newLoop(t, loop.Options{})
	var later loop.Handle
	first := l.CallSoon(func() {
		if !later.Cancel() || later.Cancel() {
			t.Error("cancel within the batch: want true, then false")
		}
	})
	later = l.CallSoon(func() { t.Error("cancelled callback ran") })
	l.CallSoon(l.Stop)
	run(t, l)
	if first.Cancel() {
		t.Error("cancelled a callback that had run")
	}
	// The places are reused: the old handles must not cancel the new callbacks.
	ran := 0
	for range 200 {
		l.CallSoon(func() { ran++ })
	}
	if first.Cancel() || later.Cancel() {
		t.Error("a stale handle cancelled something")
	}
	l.CallSoon(l.Stop)
	run(t, l)
	if ran != 200 {
		t.Errorf("%d of 200 ran", ran)
	}
}

func TestHandlesStayStaleAfterAFlood(t *testing.T) {
	l := newLoop(t, loop.Options{})
	var handles []loop.Handle
	for range 100_000 {
		handles = append(handles, l.CallSoon(func() {}))
	}
	l.CallSoon(func() { l.CallLater(time.Millisecond, l.Stop) }) // the lanes become empty, and the loop waits
	run(t, l)
	ran := false
	l.CallSoon(func() { ran = true; l.Stop() })
	for _, h := range handles {
		if h.Cancel() {
			t.Fatal("a stale handle cancelled something")
		}
	}
	run(t, l)
	if !ran {
		t.Fatal("a callback after the flood was lost")
	}
}

func TestPostFromEverywhere(t *testing.T) {
	l := newLoop(t, loop.Options{})
	order := ""
	if err := l.Post(func() { // before Run
		order += "a"
		l.Post(func() { // from a posted callback
			order += "b"
			l.CallLater(0, func() { // from a timer
				l.Post(func() {
					order += "c"
					l.Stop()
					l.Post(func() { order += "d" }) // during Stop
				})
			})
		})
	}); err != nil {
		t.Fatal(err)
	}
	run(t, l)
	l.CallSoon(l.Stop)
	run(t, l)
	if order != "abcd" {
		t.Fatalf("order %q", order)
	}
}

// TestPostLosesNothing posts while the loop begins to wait: a lost wake-up would hang.
func TestPostLosesNothing(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		const posters, each = 4, 5000
		var next [posters]int
		left := posters * each
		for p := range posters {
			go func() {
				for i := range each {
					l.Post(func() {
						if next[p] != i {
							t.Errorf("poster %d: post %d ran as number %d", p, i, next[p])
						}
						next[p]++
						if left--; left == 0 {
							l.Stop()
						}
					})
					if i%16 == 0 {
						runtime.Gosched()
					}
				}
			}()
		}
		run(t, l)
	})
}
