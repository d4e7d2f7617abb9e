package load

import (
	"math/bits"
	"time"
)

// A Histogram counts durations in buckets whose width grows with the value:
// 64 for each power of two, so a quantile is at most 1/64 above the truth. It
// has a fixed size and Record does not allocate.
type Histogram struct {
	counts [buckets]uint64
	total  uint64
	max    int64
}

const (
	subBits = 6
	sub     = 1 << subBits
	// Values up to sub have a bucket each; then every further bit adds sub
	// buckets. 63 bits are all an int64 of nanoseconds has.
	buckets = (63-subBits)*sub + sub
)

// bucket is the index of the bucket that holds v, which must not be negative.
func bucket(v int64) int {
	if v < sub {
		return int(v)
	}
	shift := bits.Len64(uint64(v)) - 1 - subBits
	return shift*sub + int(v>>shift)
}

// ceiling is the largest value that falls into bucket i.
func ceiling(i int) int64 {
	if i < sub {
		return int64(i)
	}
	shift := i/sub - 1
	return (int64(i%sub+sub)+1)<<shift - 1
}

// Record counts one duration; a negative one, which a clock read a little
// early can yield, counts as zero.
func (h *Histogram) Record(d time.Duration) {
	v := max(int64(d), 0)
	h.counts[bucket(v)]++
	h.total++
	h.max = max(h.max, v)
}

// Reset forgets everything.
func (h *Histogram) Reset() { *h = Histogram{} }

// Count is the number of durations recorded.
func (h *Histogram) Count() uint64 { return h.total }

// Max is the largest duration recorded.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max) }

// Quantile is the smallest bucket limit that at least the share q of all
// durations does not exceed. It is zero when nothing was recorded.
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
