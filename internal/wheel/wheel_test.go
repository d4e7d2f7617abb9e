package wheel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/spindleloop/spindle/internal/wheel"
)

// model is the wheel as anybody would write it: a list, searched whole.
type model struct {
	timers []modelTimer
	seq    int
}

type modelTimer struct {
	when int64
	seq  int // order of adding; also the timer's name
	ref  wheel.Ref
}

func (m *model) due(now int64) (out []int) {
	var keep, fire []modelTimer
	for _, t := range m.timers {
		if t.when <= now {
			fire = append(fire, t)
		} else {
			keep = append(keep, t)
		}
	}
	slices.SortStableFunc(fire, func(a, b modelTimer) int {
		return int(min(max(a.when-b.when, -1), 1))
	})
	for _, t := range fire {
		out = append(out, t.seq)
	}
	m.timers = keep
	return out
}

// delays spread over every level, with many equals and many in the past.
func delay(r *rand.Rand) int64 {
	switch r.IntN(8) {
	case 0:
		return -r.Int64N(1000)
	case 1:
		return r.Int64N(4)
	case 2:
		return r.Int64N(1 << 17)
	case 3:
		return r.Int64N(50e6)
	default:
		return r.Int64N(1 << (10 + r.IntN(36)))
	}
}

// TestAgainstModel holds the wheel against a sorted list for a million random
// operations.
func TestAgainstModel(t *testing.T) {
	const operations = 1_000_000
	seeds := 20
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			againstModel(t, rand.New(rand.NewPCG(uint64(seed), 1)), operations/seeds)
		})
	}
}

func againstModel(t *testing.T, r *rand.Rand, operations int) {
	now := r.Int64N(1 << 40)
	w := wheel.New(now)
	m := &model{}
	var fired []int
	add := func(when int64) {
		name := m.seq
		m.seq++
		ref := w.Add(when, func() { fired = append(fired, name) })
		m.timers = append(m.timers, modelTimer{when, name, ref})
	}
	var stale []wheel.Ref
	for range operations {
		switch op := r.IntN(100); {
		case op < 50 && len(m.timers) < 400:
			add(now + delay(r))
		case op < 80 && len(m.timers) > 0:
			i := r.IntN(len(m.timers))
			if !w.Cancel(m.timers[i].ref) {
				t.Fatal("cancel of a pending timer said no")
			}
			stale = append(stale, m.timers[i].ref)
			m.timers = slices.Delete(m.timers, i, i+1)
		case op < 85 && len(stale) > 0:
			if w.Cancel(stale[r.IntN(len(stale))]) {
				t.Fatal("cancel of a stale ref said yes")
			}
		default:
			now += max(0, delay(r))
			fired = fired[:0]
			next, ok := w.Next()
			for _, timer := range m.timers {
				if timer.when <= now {
					stale = append(stale, timer.ref)
				}
			}
			want := m.due(now)
			if len(want) > 0 && (!ok || next > now) {
				t.Fatalf("Next = %d, %v with timers due at %d", next, ok, now)
			}
			w.Begin(now)
			for {
				fn, when := w.Due()
				if fn == nil {
					break
				}
				if when > now {
					t.Fatalf("early: %d at %d", when, now)
				}
				fn()
			}
			w.End()
			if !slices.Equal(fired, want) {
				t.Fatalf("at %d fired %v, want %v", now, fired, want)
			}
		}
		if w.Len() != len(m.timers) {
			t.Fatalf("Len = %d, want %d", w.Len(), len(m.timers))
		}
	}
}

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

func TestAddedDuringPhaseWaitsForNext(t *testing.T) {
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
			t.Fatalf("after phase %d it ran %d times", phase, runs)
		}
	}
	if other != 1 {
		t.Fatalf("a timer behind one that re-arms in the past ran %d times, want 1", other)
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

// TestCancelledTimersDoNotPileUp adds and cancels far more timers than are
// ever alive: the dead must be swept although their slot never comes.
func TestCancelledTimersDoNotPileUp(t *testing.T) {
	w := wheel.New(0)
	nop := func() {}
	keep := make([]wheel.Ref, 1000)
	for i := range keep {
		keep[i] = w.Add(1e12+int64(i), nop)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2_000_000 {
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

func TestSteadyStateAllocatesNothing(t *testing.T) {
	w := wheel.New(0)
	nop := func() {}
	now := int64(0)
	cycle := func() {
		for i := range int64(500) {
			w.Cancel(w.Add(now+i*1000, nop))
			w.Add(now+i*997, nop)
		}
		now += 1e6
		drain(w, now)
	}
	for range 100 {
		cycle()
	}
	if n := testing.AllocsPerRun(100, cycle); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkAddCancel(b *testing.B) {
	w := wheel.New(0)
	nop := func() {}
	for i := 0; b.Loop(); i++ {
		w.Cancel(w.Add(int64(i)*50+1e9, nop))
	}
}

func BenchmarkAddFire(b *testing.B) {
	const n = 1_000_000
	w := wheel.New(0)
	nop := func() {}
	r := rand.New(rand.NewPCG(1, 2))
	delays := make([]int64, n)
	for i := range delays {
		delays[i] = r.Int64N(50) * 1e6
	}
	now := int64(0)
	for b.Loop() {
		for _, d := range delays {
			w.Add(now+d, nop)
			now += 60
		}
		now += 50e6
		drain(w, now)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/timer")
}

func BenchmarkReplaceAmongMillion(b *testing.B) {
	const n = 1_000_000
	w := wheel.New(0)
	nop := func() {}
	r := rand.New(rand.NewPCG(1, 2))
	refs := make([]wheel.Ref, n)
	for i := range refs {
		refs[i] = w.Add(1e9+r.Int64N(60e9), nop)
	}
	for b.Loop() {
		i := r.IntN(n)
		w.Cancel(refs[i])
		refs[i] = w.Add(1e9+r.Int64N(60e9), nop)
	}
}

// FuzzAgainstModel lets the fuzzer choose the operations.
func FuzzAgainstModel(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint16(1000))
	f.Fuzz(func(t *testing.T, a, b uint64, n uint16) {
		againstModel(t, rand.New(rand.NewPCG(a, b)), int(n))
	})
}
