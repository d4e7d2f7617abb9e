package wheel_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/spindleloop/spindle/internal/wheel"
)

const tick = 1 << 17 // ns

func nop() {}

// addAll sets n timers from begin on, step apart.
func addAll(w *wheel.Wheel, n int, begin, step int64) []wheel.Ref {
	refs := make([]wheel.Ref, n)
	for i := range refs {
		refs[i] = w.Add(begin+int64(i)*step, nop)
	}
	return refs
}

// cancelAll cancels every timer, or all but each keepth.
func cancelAll(t *testing.T, w *wheel.Wheel, refs []wheel.Ref, keep int) {
	t.Helper()
	for i, r := range refs {
		if keep > 0 && i%keep == 0 {
			continue
		}
		if !w.Cancel(r) {
			t.Fatalf("timer %d could not be cancelled", i)
		}
	}
}

func wantEntries(t *testing.T, w *wheel.Wheel, want int) {
	t.Helper()
	if n := w.Entries(); n != want {
		t.Errorf("the wheel counts %d entries, want %d", n, want)
	}
}

// TestDeadAreCountedWhereverTheyAreDropped: a cancelled timer's entry leaves
// through Due, Next, a cascade or the sweep, and the account must come out at
// nothing, or the sweep would start too early or never.
func TestDeadAreCountedWhereverTheyAreDropped(t *testing.T) {
	t.Run("Due", func(t *testing.T) {
		w := wheel.New(0)
		cancelAll(t, w, addAll(w, 100, 0, 1), 2) // the running tick: in the heap
		if n := drain(w, tick-1); n != 50 {
			t.Errorf("%d fired", n)
		}
		wantEntries(t, w, 0)
	})
	t.Run("Due from the run list", func(t *testing.T) {
		w := wheel.New(0)
		refs := addAll(w, 100, tick, 1)
		w.Begin(tick)
		w.Due() // the tick has begun: the others are sorted into its list
		w.End()
		cancelAll(t, w, refs[1:], 0)
		drain(w, 2*tick)
		wantEntries(t, w, 0)
	})
	t.Run("Next", func(t *testing.T) {
		w := wheel.New(0)
		cancelAll(t, w, addAll(w, 100, 0, 1), 0)
		w.Add(200, nop)
		if next, ok := w.Next(); !ok || next != 200 {
			t.Errorf("Next = %d, %v", next, ok)
		}
		wantEntries(t, w, 1)
	})
	t.Run("slot", func(t *testing.T) {
		w := wheel.New(0)
		cancelAll(t, w, addAll(w, 100, 5*tick, 1), 0)
		cancelAll(t, w, addAll(w, 100, 1000*tick, tick), 0)
		drain(w, 2000*tick)
		wantEntries(t, w, 0)
	})
	t.Run("late", func(t *testing.T) {
		w := wheel.New(0)
		for phase := range int64(10) {
			w.Begin(phase)
			refs := addAll(w, 20, phase, 0)
			w.End()
			cancelAll(t, w, refs, 2)
		}
		if n := drain(w, 10); n != 100 {
			t.Errorf("%d fired", n)
		}
		wantEntries(t, w, 0)
	})
}

// TestNextOfNoTimers: what was cancelled is no reason to wake up.
func TestNextOfNoTimers(t *testing.T) {
	for _, when := range []int64{0, 5 * tick, 1e15} {
		w := wheel.New(0)
		cancelAll(t, w, addAll(w, 3, when, 1), 0)
		if next, ok := w.Next(); ok {
			t.Errorf("Next = %d with no timers, after a cancel of %d", next, when)
		}
	}
}

// TestNextSkipsTheDeadOfTheRunningTick: the deadlines of the running tick are
// at hand, so that a cancelled one need not wake anybody.
func TestNextSkipsTheDeadOfTheRunningTick(t *testing.T) {
	w := wheel.New(0)
	first := w.Add(10, nop)
	w.Add(20, nop)
	w.Cancel(first)
	if next, ok := w.Next(); !ok || next != 20 {
		t.Errorf("Next = %d, %v; want 20", next, ok)
	}
}

// TestRefsThatNameNothing cancels names the wheel never gave.
func TestRefsThatNameNothing(t *testing.T) {
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
		t.Errorf("%d fired", n)
	}
}

// TestEqualsKeepTheirOrderAcrossABegunTick sets a timer for a moment of the
// running tick at which one, set before the tick began, is still to come.
func TestEqualsKeepTheirOrderAcrossABegunTick(t *testing.T) {
	w := wheel.New(0)
	var order []string
	note := func(s string) func() { return func() { order = append(order, s) } }
	w.Add(tick, note("begins the tick"))
	w.Add(tick+100, note("set before"))
	drain(w, tick)
	w.Add(tick+100, note("set during"))
	w.Add(tick+50, note("set during, earlier"))
	drain(w, tick+100)
	want := []string{"begins the tick", "set during, earlier", "set before", "set during"}
	if !slices.Equal(order, want) {
		t.Errorf("order %q", order)
	}
}

// TestManyOfOneTickKeepTheirOrder is for the sort of long lists: deadlines in
// every order within a tick, each of them twice.
func TestManyOfOneTickKeepTheirOrder(t *testing.T) {
	for _, n := range []int64{47, 48, 49, 5000} {
		w := wheel.New(0)
		var got []int64
		for i := range 2 * n {
			when := tick + (i*7919*26)%n*(tick/n)
			w.Add(when, func() { got = append(got, when<<20|i) })
		}
		drain(w, 2*tick)
		if int64(len(got)) != 2*n || !slices.IsSorted(got) {
			t.Errorf("%d timers of one tick came out of order", n)
		}
	}
}

// TestSlotComesDueUnderTheSweep has the sweep stand in the middle of a slot
// when its time comes: the chunks it stood at belong to others from then on.
func TestSlotComesDueUnderTheSweep(t *testing.T) {
	w := wheel.New(0)
	refs := addAll(w, 1500, 10*tick, 1)
	cancelAll(t, w, refs[:1480], 0) // past the slack, a chunk is swept for each
	if n := w.Entries(); n < 500 || n > 1400 {
		t.Fatalf("%d entries: the sweep is not in the middle of the slot", n)
	}
	if n := drain(w, 11*tick); n != 20 {
		t.Fatalf("%d fired, want 20", n)
	}
	// The chunks are now another slot's, and the sweep starts again.
	cancelAll(t, w, addAll(w, 1500, 20*tick, 1), 0)
	drain(w, 21*tick)
	wantEntries(t, w, 0)
	// Each chunk must have come back once: one slot for each of these.
	addAll(w, 200, 30*tick, tick)
	for i := range int64(200) {
		if n := drain(w, (30+i)*tick); n != 1 {
			t.Fatalf("%d timers fired in tick %d", n, i)
		}
	}
}

// TestSweptSlotIsEmpty: a slot whose last entry was swept away must not be
// found by Next or by the sweep again, and can be filled anew.
func TestSweptSlotIsEmpty(t *testing.T) {
	w := wheel.New(0)
	cancelAll(t, w, addAll(w, 5000, 10*tick, 1), 0)
	w.Add(1e12, nop)
	for range 5000 { // sweeps everything before it
		w.Cancel(w.Add(20*tick, nop))
	}
	if next, ok := w.Next(); !ok || next < 20*tick {
		t.Fatalf("Next = %d, %v", next, ok)
	}
	w.Add(10*tick+5, nop)
	if n := drain(w, 11*tick); n != 1 {
		t.Fatalf("%d fired from a slot that was swept and filled again", n)
	}
	if n := drain(w, 1e12); n != 1 {
		t.Fatalf("%d fired at the end", n)
	}
	wantEntries(t, w, 0)
}

// TestFiredAndCancelledFunctionsAreFree: the wheel must not keep what a
// function holds once it cannot run any more.
func TestFiredAndCancelledFunctionsAreFree(t *testing.T) {
	w := wheel.New(0)
	freed := make(chan string, 2)
	add := func(name string, when int64) wheel.Ref {
		held := new([1 << 16]byte)
		runtime.AddCleanup(held, func(name string) { freed <- name }, name)
		return w.Add(when, func() { held[0]++ })
	}
	add("fired", 10)
	drain(w, 10)
	w.Cancel(add("cancelled", 20*tick))
	runtime.GC()
	got := []string{<-freed, <-freed} // hangs if one is kept
	slices.Sort(got)
	if !slices.Equal(got, []string{"cancelled", "fired"}) {
		t.Errorf("freed %q", got)
	}
	runtime.KeepAlive(w)
}

// TestWavesAllocateNothing sets far more timers than one page holds, in all
// the ways they can end, again and again: nodes and chunks must come back.
func TestWavesAllocateNothing(t *testing.T) {
	now := int64(0)
	for name, end := range map[string]func(*wheel.Wheel, []wheel.Ref){
		"fired": func(w *wheel.Wheel, _ []wheel.Ref) { drain(w, now+1e9) },
		"cancelled": func(w *wheel.Wheel, refs []wheel.Ref) {
			for _, r := range refs {
				w.Cancel(r)
			}
			for range 3000 { // long enough for the sweep to come by
				w.Cancel(w.Add(now+1, nop))
			}
			drain(w, now+2)
		},
	} {
		now = 0
		w := wheel.New(now)
		refs := make([]wheel.Ref, 5000)
		wave := func() {
			for i := range refs {
				refs[i] = w.Add(now+1e6+int64(i)*3*tick/2, nop)
			}
			end(w, refs)
			now += 2e9
		}
		for range 50 {
			wave()
		}
		if n := testing.AllocsPerRun(20, wave); n != 0 {
			t.Errorf("%s: %v allocations for a wave", name, n)
		}
	}
}

// TestSparseChunksAreMerged keeps one timer of each chunk: what the others took
// must be there for newcomers.
func TestSparseChunksAreMerged(t *testing.T) {
	w := wheel.New(0)
	cancelAll(t, w, addAll(w, 30_000, 10*tick, 1), 15)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range int64(20_000) {
		w.Add(20*tick+i, nop)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
		t.Errorf("%d bytes for 20,000 timers, after 28,000 were cancelled", n)
	}
	if n := drain(w, 30*tick); n != 22_000 {
		t.Errorf("%d fired", n)
	}
}
