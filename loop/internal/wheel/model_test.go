package wheel_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/spindleloop/spindle/loop/internal/wheel"
)

// model is the simplest implementation of a wheel: a list that is searched linearly.
type model struct {
	timers []modelTimer
	seq    int
}

type modelTimer struct {
	when int64
	seq  int // the order of adding; identifies the timer
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

// delay returns a random delay. Delays cover every level; many are equal and many are
// in the past.
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

// TestAgainstModel compares the wheel with the model for a million random operations.
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
				t.Fatal("Cancel of a pending timer returned false")
			}
			stale = append(stale, m.timers[i].ref)
			m.timers = slices.Delete(m.timers, i, i+1)
		case op < 85 && len(stale) > 0:
			if w.Cancel(stale[r.IntN(len(stale))]) {
				t.Fatal("Cancel of a stale ref returned true")
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
					t.Fatalf("a timer for %d fired early, at %d", when, now)
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

// FuzzAgainstModel compares the wheel with the model for fuzzed seeds and lengths.
func FuzzAgainstModel(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint16(1000))
	f.Fuzz(func(t *testing.T, a, b uint64, n uint16) {
		againstModel(t, rand.New(rand.NewPCG(a, b)), int(n))
	})
}
