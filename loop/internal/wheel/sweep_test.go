package wheel_test

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop/internal/wheel"
)

// addAll adds n timers, the first at begin, step apart.
func addAll(w *wheel.Wheel, n int, begin, step int64) []wheel.Ref {
	refs := make([]wheel.Ref, n)
	for i := range refs {
		refs[i] = w.Add(begin+int64(i)*step, nop)
	}
	return refs
}

// cancelAll cancels every timer; if keep > 0, it keeps one in keep.
func cancelAll(t *testing.T, w *wheel.Wheel, refs []wheel.Ref, keep int) {
	t.Helper()
	for i, r := range refs {
		if keep > 0 && i%keep == 0 {
			continue
		}
		if !w.Cancel(r) {
			t.Fatalf("timer %d was not pending", i)
		}
	}
}

func wantEntries(t *testing.T, w *wheel.Wheel, want int) {
	t.Helper()
	if n := w.Entries(); n != want {
		t.Errorf("the wheel has %d entries, want %d", n, want)
	}
}

// Due, Next, a cascade or the sweep drops the entry of a cancelled timer. Each must
// count it. Otherwise the sweep starts too early or never.
func TestDeadEntriesAreCountedWhereverTheyAreDropped(t *testing.T) {
	t.Run("Due", func(t *testing.T) {
		w := wheel.New(0)
		cancelAll(t, w, addAll(w, 100, 0, 1), 2) // of the running tick: in the heap
		if n := drain(w, tick-1); n != 50 {
			t.Errorf("%d timers fired, want 50", n)
		}
		wantEntries(t, w, 0)
	})
	t.Run("Due from the run list", func(t *testing.T) {
		w := wheel.New(0)
		refs := addAll(w, 100, tick, 1)
		w.Begin(tick)
		w.Due() // begins the tick, which sorts the others into the run list
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
	t.Run("deferred", func(t *testing.T) {
		w := wheel.New(0)
		for phase := range int64(10) {
			w.Begin(phase)
			refs := addAll(w, 20, phase, 0)
			w.End()
			cancelAll(t, w, refs, 2)
		}
		if n := drain(w, 10); n != 100 {
			t.Errorf("%d timers fired, want 100", n)
		}
		wantEntries(t, w, 0)
	})
}

// The slot comes due while the sweep is in its middle. From then on its chunks
// belong to other slots.
func TestSlotComesDueDuringTheSweep(t *testing.T) {
	w := wheel.New(0)
	refs := addAll(w, 1500, 10*tick, 1)
	cancelAll(t, w, refs[:1480], 0) // past the slack, each Cancel sweeps a chunk
	if n := w.Entries(); n < 500 || n > 1400 {
		t.Fatalf("%d entries: the sweep is not in the middle of the slot", n)
	}
	if n := drain(w, 11*tick); n != 20 {
		t.Fatalf("%d timers fired, want 20", n)
	}
	// Another slot takes the chunks, and the sweep starts again.
	cancelAll(t, w, addAll(w, 1500, 20*tick, 1), 0)
	drain(w, 21*tick)
	wantEntries(t, w, 0)
	// Each chunk must have been freed once: each of these timers has its own slot.
	addAll(w, 200, 30*tick, tick)
	for i := range int64(200) {
		if n := drain(w, (30+i)*tick); n != 1 {
			t.Fatalf("%d timers fired in tick %d", n, i)
		}
	}
}

// Once its last entry is swept, Next and the sweep must not find a slot again, and the
// slot can be filled again.
func TestSweptSlotIsEmpty(t *testing.T) {
	w := wheel.New(0)
	cancelAll(t, w, addAll(w, 5000, 10*tick, 1), 0)
	w.Add(1e12, nop)
	for range 5000 { // sweeps all entries before this one
		w.Cancel(w.Add(20*tick, nop))
	}
	if next, ok := w.Next(); !ok || next < 20*tick {
		t.Fatalf("Next = %d, %v, want 20 ticks or later", next, ok)
	}
	w.Add(10*tick+5, nop)
	if n := drain(w, 11*tick); n != 1 {
		t.Fatalf("%d timers fired from a slot that was swept and filled again, want 1", n)
	}
	if n := drain(w, 1e12); n != 1 {
		t.Fatalf("%d timers fired at the end, want 1", n)
	}
	wantEntries(t, w, 0)
}

// The test keeps one timer of each chunk. New timers must be able to use the space of
// the cancelled ones.
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
		t.Errorf("20,000 timers allocated %d bytes, after 28,000 were cancelled", n)
	}
	if n := drain(w, 30*tick); n != 22_000 {
		t.Errorf("%d timers fired, want 22,000", n)
	}
}

// The test adds and cancels far more timers than are ever pending. Dead entries must
// be swept although their slots never come due.
func TestCancelledTimersDoNotAccumulate(t *testing.T) {
	w := wheel.New(0)
	keep := make([]wheel.Ref, 1000)
	for i := range keep {
		keep[i] = w.Add(1e12+int64(i), nop)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range short.Of(2_000_000) {
		i := r.IntN(len(keep))
		w.Cancel(keep[i])
		keep[i] = w.Add(1e12+r.Int64N(1e12), nop)
	}
	if n := w.Entries(); n > 8000 {
		t.Fatalf("%d entries for 1000 timers", n)
	}
	if n := drain(w, 3e12); n != len(keep) {
		t.Fatalf("fired %d, want %d", n, len(keep))
	}
}
