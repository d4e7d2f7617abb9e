package wheel_test

import (
	"slices"
	"testing"

	"github.com/spindleloop/spindle/loop/internal/wheel"
)

// The test adds a timer to the running tick, with the deadline of a pending timer
// that was added before the tick began.
func TestEqualDeadlinesKeepTheirOrderInTheRunningTick(t *testing.T) {
	w := wheel.New(0)
	var order []string
	note := func(s string) func() { return func() { order = append(order, s) } }
	w.Add(tick, note("begins the tick"))
	w.Add(tick+100, note("added before"))
	drain(w, tick)
	w.Add(tick+100, note("added during"))
	w.Add(tick+50, note("added during, earlier"))
	drain(w, tick+100)
	want := []string{"begins the tick", "added during, earlier", "added before", "added during"}
	if !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
}

// The test covers both sorts: deadlines within one tick in mixed order, each twice.
func TestManyTimersOfOneTickKeepTheirOrder(t *testing.T) {
	for _, n := range []int64{47, 48, 49, 5000} {
		w := wheel.New(0)
		var got []int64
		for i := range 2 * n {
			when := tick + (i*7919*26)%n*(tick/n)
			w.Add(when, func() { got = append(got, when<<20|i) })
		}
		drain(w, 2*tick)
		if int64(len(got)) != 2*n || !slices.IsSorted(got) {
			t.Errorf("%d timers of one tick fired out of order", n)
		}
	}
}
