package load

import (
	"math/bits"
	"time"
)

// A Histogram counts durations in buckets. There are 64 buckets for each power of two, so
// a quantile is at most 1/64 above the true value. A Histogram has a fixed size, and
// Record does not allocate.
type Histogram struct {
	counts [buckets]uint64
	total  uint64
	max    int64
}

const (
	subBits = 6
	sub     = 1 << subBits
	// Values below sub have a bucket each. Every further bit, up to the 63 bits of a
	// duration, adds sub buckets.
	buckets = (63-subBits)*sub + sub
)

// bucket returns the index of the bucket for v, which must not be negative.
func bucket(v int64) int {
	if v < sub {
		return int(v)
	}
	shift := bits.Len64(uint64(v)) - 1 - subBits
	return shift*sub + int(v>>shift)
}

// ceiling returns the largest value in bucket i.
func ceiling(i int) int64 {
	if i < sub {
		return int64(i)
	}
	shift := i/sub - 1
	return (int64(i%sub+sub)+1)<<shift - 1
}

// Record counts one duration. A negative one, which an early clock reading can cause,
// counts as zero.
func (h *Histogram) Record(d time.Duration) {
	v := max(int64(d), 0)
	h.counts[bucket(v)]++
	h.total++
	h.max = max(h.max, v)
}

// Reset removes all durations.
func (h *Histogram) Reset() { *h = Histogram{} }

// Count returns the number of durations recorded.
func (h *Histogram) Count() uint64 { return h.total }

// Max returns the largest duration recorded.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max) }

// Quantile returns the smallest bucket limit that is not exceeded by at least the share q
// of all durations. It returns zero if nothing was recorded.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := uint64(q * float64(h.total))
	if float64(rank) < q*float64(h.total) {
		rank++
	}
	rank = max(rank, 1)
	var seen uint64
	for i, n := range h.counts {
		seen += n
		if seen >= rank {
			return time.Duration(min(ceiling(i), h.max))
		}
	}
	return time.Duration(h.max)
}
