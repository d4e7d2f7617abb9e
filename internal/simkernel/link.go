package simkernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Delay draws a duration.
type Delay func(r *rand.Rand) time.Duration

// Fixed returns a Delay that is always d.
func Fixed(d time.Duration) Delay { return func(*rand.Rand) time.Duration { return d } }

// Uniform returns a Delay distributed evenly from least to most.
func Uniform(least, most time.Duration) Delay {
	if most <= least {
		return Fixed(least)
	}
	return func(r *rand.Rand) time.Duration { return least + time.Duration(r.Int64N(int64(most-least)+1)) }
}

// LongTail returns a Delay that is mostly near typical and occasionally far longer: half of
// typical plus an exponential distribution.
func LongTail(typical time.Duration) Delay {
	return func(r *rand.Rand) time.Duration {
		return typical/2 + time.Duration(r.ExpFloat64()*float64(typical)/2)
	}
}

// FaultRates are the shares of faults on every link between hosts and in every process, in
// addition to those of the link itself.
type FaultRates struct {
	Loss, Duplicate, Reorder, Dribble float64
	Spurious                          float64 // the share of waits that end early
}

// SetFaultRates sets the rates from now on.
func (w *World) SetFaultRates(t FaultRates) { w.faultRates = t }

// Link is the connection from one host to another, in one direction.
type Link struct {
	w        *World
	from, to *Host
	rand     *rand.Rand

	Delay     Delay   // nil means the world's
	Rate      int64   // bytes per second; 0 means no limit
	Down      bool    // the link is cut
	Loss      float64 // the share of datagrams that are lost; segments are retransmitted
	Duplicate float64 // the share of datagrams that arrive twice
	Reorder   float64 // the share of datagrams that are delayed
	Dribble   float64 // the share of segments that are split into small ones

	free time.Duration // when the link can send again, if it has a rate
}

// Link returns the link from a to b.
func (w *World) Link(a, b *Host) *Link {
	key := [2]*Host{a, b}
	l := w.links[key]
	if l == nil {
		l = &Link{w: w, from: a, to: b, rand: w.Rand("link " + a.name + "\x00" + b.name)}
		w.links[key] = l
	}
	return l
}

// Cut cuts the link, or ends a cut.
func (l *Link) Cut(cut bool) {
	if l.Down == cut {
		return
	}
	l.Down = cut
	kind := Healed
	if cut {
		kind = Partitioned
	}
	l.w.trace.add(l.w, traceEvent{kind: kind, from: l.from.id, to: l.to.id})
}

// Limit limits the bandwidth; 0 means no limit.
func (l *Link) Limit(bytesPerSecond int64) {
	if l.Rate == bytesPerSecond {
		return
	}
	l.Rate = bytesPerSecond
	note := "no limit"
	if bytesPerSecond > 0 {
		note = fmt.Sprintf("%d bytes per second", bytesPerSecond)
	}
	l.w.trace.add(l.w, traceEvent{kind: RateSet, from: l.from.id, to: l.to.id, note: note})
}

// Heal ends every cut, in the order of the hosts.
func (w *World) Heal() {
	for _, a := range w.hosts {
		for _, b := range w.hosts {
			if l := w.links[[2]*Host{a, b}]; l != nil {
				l.Cut(false)
			}
		}
	}
}

// local reports whether the link is a host's loopback, which has no latency by default.
func (l *Link) local() bool { return l.from == l.to }

// immediate reports whether data arrives at once: on a loopback without settings.
func (l *Link) immediate() bool {
	return l.local() && l.Delay == nil && l.Rate == 0 && l.Loss == 0 && l.Duplicate == 0 && l.Reorder == 0
}

// depart returns the time at which n bytes that are sent now have left the host.
func (l *Link) depart(n int) time.Duration {
	now := l.w.Now()
	if l.Rate <= 0 {
		return now
	}
	l.free = max(l.free, now) + time.Duration(math.Ceil(float64(n)*float64(time.Second)/float64(l.Rate)))
	return l.free
}

// travel draws the latency.
func (l *Link) travel() time.Duration {
	d := l.Delay
	if d == nil {
		if l.local() {
			return 0
		}
		d = l.w.delay
	}
	return max(d(l.rand), 0)
}

// chance draws whether a fault occurs, with the rate of the link or of the world,
// whichever is higher.
func (l *Link) chance(own, world float64) bool {
	if l.local() {
		world = 0
	}
	p := max(own, world)
	return p > 0 && l.rand.Float64() < p
}

func (l *Link) loses() bool   { return l.chance(l.Loss, l.w.faultRates.Loss) }
func (l *Link) doubles() bool { return l.chance(l.Duplicate, l.w.faultRates.Duplicate) }

// passes draws whether a segment that is sent now arrives.
func (l *Link) passes() bool { return !l.Down && !l.loses() }

// segment returns how many of n bytes are sent as one segment.
func (l *Link) segment(n int) int {
	n = min(n, maxSegment)
	if n > 1 && l.chance(l.Dribble, l.w.faultRates.Dribble) {
		n = 1 + l.rand.IntN(min(n-1, 32))
	}
	return n
}

// maxSegment is the maximal size of a segment.
const maxSegment = 64 << 10
