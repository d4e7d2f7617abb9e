package wheel_test

import (
	"math/rand/v2"
	"testing"

	"github.com/spindleloop/spindle/loop/internal/wheel"
)

func BenchmarkAddCancel(b *testing.B) {
	w := wheel.New(0)
	for i := 0; b.Loop(); i++ {
		w.Cancel(w.Add(int64(i)*50+1e9, nop))
	}
}

func BenchmarkAddFire(b *testing.B) {
	const n = 1_000_000
	w := wheel.New(0)
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
