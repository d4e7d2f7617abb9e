package loopcore

import (
	"math/bits"
	"time"
)

// Phases is how long the phases of turns took, while an inspector is attached. Only one
// turn of SampleEvery is measured: reading the clock between any two phases would be a
// tenth of a short turn. Loop goroutine only.
type Phases struct {
	Inbox, Timers, Ready, Wait, Events time.Duration // of the measured turns
	turns                              uint64
}

// SampleEvery is how many turns there are for each one that is measured.
const SampleEvery = 8

// Sample counts a turn, and reports whether it is to be measured.
func (p *Phases) Sample() bool {
	p.turns++
	return p.turns%SampleEvery == 0
}

// Add adds a measured turn.
func (p *Phases) Add(inbox, timers, ready, wait, events time.Duration) {
	p.Inbox += inbox
	p.Timers += timers
	p.Ready += ready
	p.Wait += wait
	p.Events += events
}

// Total returns the sum of the phases.
func (p *Phases) Total() time.Duration { return p.Inbox + p.Timers + p.Ready + p.Wait + p.Events }

// Sub subtracts an earlier state.
func (p *Phases) Sub(before *Phases) {
	p.Add(-before.Inbox, -before.Timers, -before.Ready, -before.Wait, -before.Events)
}

// Lags counts how late timers were, by powers of two. Loop goroutine only.
type Lags struct {
	Counts [LagBuckets]uint64
	Sum    time.Duration
}

// LagBuckets is the number of buckets. LagLimit is the upper bound of all but the last.
const LagBuckets = 22

// LagLimit returns the lag below which lags are counted in bucket i or before it. The last
// bucket has no limit.
func LagLimit(i int) time.Duration { return 1 << (10 + i) } // about a microsecond, doubled each time

// Add counts a lag.
func (h *Lags) Add(lag time.Duration) {
	h.Counts[min(bits.Len64(uint64(lag)>>10), LagBuckets-1)]++
	h.Sum += lag
}
