package probe

import (
	"math/bits"
	"time"
)

// Phases is how long the phases of turns took, while an inspector is attached. Waits are
// measured always, so that the share of time in which the loop waits is exact. Of the other
// phases only one turn of SampleEvery is measured, which shows their proportions: reading the
// clock between any two phases would be a tenth of a short turn. Loop goroutine only.
type Phases struct {
	Began                        time.Duration // when the inspector was attached
	Wait                         time.Duration // of all turns
	Inbox, Timers, Ready, Events time.Duration // of the measured turns
	turns                        uint64
	waits                        time.Duration // when the present wait began
}

// SampleEvery is how many turns there are for each one that is measured.
const SampleEvery = 8

// Sample counts a turn, and reports whether it is to be measured.
func (p *Phases) Sample() bool {
	p.turns++
	return p.turns%SampleEvery == 0
}

// Add adds a measured turn.
func (p *Phases) Add(inbox, timers, ready, events time.Duration) {
	p.Inbox += inbox
	p.Timers += timers
	p.Ready += ready
	p.Events += events
}

// BeginWait says that the loop waits from now on.
func (p *Phases) BeginWait(now time.Duration) { p.waits = now }

// EndWait says that the loop has waited until now.
func (p *Phases) EndWait(now time.Duration) { p.Wait += now - p.waits }

// Sub subtracts an earlier state.
func (p *Phases) Sub(before *Phases) {
	p.Add(-before.Inbox, -before.Timers, -before.Ready, -before.Events)
	p.Wait -= before.Wait
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
