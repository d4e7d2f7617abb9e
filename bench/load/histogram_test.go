//go:build linux

package load_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle/bench/load"
)

// A quantile is never below the true one, and at most 1/64 above it.
func TestHistogramAgainstSortedSlice(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draws := map[string]func() int64{
		"small":       func() int64 { return r.Int64N(100) },
		"latencies":   func() int64 { return int64(math.Exp(r.NormFloat64()+13)) + 1 },
		"everything":  func() int64 { return r.Int64() >> r.Int64N(63) },
		"one value":   func() int64 { return 123_456 },
		"powers of 2": func() int64 { return 1 << r.Int64N(63) },
	}
	for name, draw := range draws {
		var h load.Histogram
		values := make([]int64, 10_000)
		for i := range values {
			values[i] = draw()
			h.Record(time.Duration(values[i]))
		}
		slices.Sort(values)
		if h.Count() != uint64(len(values)) || int64(h.Max()) != values[len(values)-1] {
			t.Errorf("%s: count %d, max %d; want %d, %d", name, h.Count(), h.Max(), len(values), values[len(values)-1])
		}
		for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
			want := values[max(int(math.Ceil(q*float64(len(values))))-1, 0)]
			got := int64(h.Quantile(q))
			if got < want || got-want > want/64 {
				t.Errorf("%s: quantile %v is %d, true %d", name, q, got, want)
			}
		}
	}
}

func TestHistogramEdges(t *testing.T) {
	var h load.Histogram
	if h.Quantile(0.5) != 0 || h.Max() != 0 {
		t.Error("an empty histogram has a quantile or a maximum")
	}
	h.Record(-5)
	h.Record(math.MaxInt64)
	if h.Quantile(0.5) != 0 || h.Quantile(1) != math.MaxInt64 {
		t.Errorf("quantiles %d and %d; want 0 and %d", h.Quantile(0.5), h.Quantile(1), int64(math.MaxInt64))
	}
	h.Reset()
	if h.Count() != 0 {
		t.Error("the histogram is not empty after Reset")
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	var h load.Histogram
	if n := testing.AllocsPerRun(100, func() { h.Record(time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
