package wheel_test

import (
	"math"
	"testing"

	"github.com/spindleloop/spindle/loop/internal/wheel"
)

const tick = 1 << 17 // ns

func nop() {}

// drain runs one phase at now and returns the number of timers that fired.
func drain(w *wheel.Wheel, now int64) (n int) {
	w.Begin(now)
	defer w.End()
	for {
		fn, _ := w.Due()
		if fn == nil {
			return n
		}
		fn()
		n++
	}
}

func TestTimerAddedDuringAPhaseWaitsForTheNext(t *testing.T) {
	w := wheel.New(0)
	runs := 0
	var again func()
	again = func() { runs++; w.Add(0, again) }
	w.Add(0, again)
	other := 0
	w.Add(5, func() { other++ })
	for phase := 1; phase <= 3; phase++ {
		drain(w, 10)
		if runs != phase {
			t.Fatalf("after phase %d the timer has run %d times", phase, runs)
		}
	}
	if other != 1 {
		t.Fatalf("a timer after one that re-arms in the past ran %d times, want 1", other)
	}
}

func TestFarthestDeadline(t *testing.T) {
	w := wheel.New(0)
	ran := 0
	w.Add(math.MaxInt64, func() { ran++ })
	w.Add(math.MaxInt64-1, func() { ran++ })
	if n := drain(w, math.MaxInt64-2); n != 0 {
		t.Fatal("fired early")
	}
	if next, ok := w.Next(); !ok || next != math.MaxInt64-1 {
		t.Fatal("Next", next, ok)
	}
	if n := drain(w, math.MaxInt64); n != 2 {
		t.Fatalf("fired %d, want 2", n)
	}
}

func TestNextFindsNoneAfterAllAreCancelled(t *testing.T) {
	for _, when := range []int64{0, 5 * tick, 1e15} {
		w := wheel.New(0)
		cancelAll(t, w, addAll(w, 3, when, 1), 0)
		if next, ok := w.Next(); ok {
			t.Errorf("Next = %d with no timers, after timers at %d were cancelled", next, when)
		}
	}
}

// The entries of the running tick are sorted, so Next can skip dead ones exactly.
func TestNextSkipsCancelledTimersOfTheRunningTick(t *testing.T) {
	w := wheel.New(0)
	first := w.Add(10, nop)
	w.Add(20, nop)
	w.Cancel(first)
	if next, ok := w.Next(); !ok || next != 20 {
		t.Errorf("Next = %d, %v; want 20", next, ok)
	}
}

func TestCancelIgnoresRefsThatWereNeverReturned(t *testing.T) {
	w := wheel.New(0)
	for _, r := range []wheel.Ref{0, 1 << 32, 1<<32 | 1<<31, ^wheel.Ref(0)} {
		if w.Cancel(r) {
			t.Errorf("an empty wheel cancelled %x", uint64(r))
		}
	}
	w.Add(10, nop)
	if w.Cancel(0) {
		t.Error("the zero Ref cancelled a timer")
	}
	if n := drain(w, 10); n != 1 {
		t.Errorf("%d timers fired, want 1", n)
	}
}
