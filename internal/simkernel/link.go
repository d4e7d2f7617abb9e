package simkernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Delay draws how long something takes.
type Delay func(r *rand.Rand) time.Duration

// Fixed is always d.
func Fixed(d time.Duration) Delay { return func(*rand.Rand) time.Duration { return d } }

// Uniform is anything from least to most.
func Uniform(least, most time.Duration) Delay {
	if most <= least {
		return Fixed(least)
	}
	return func(r *rand.Rand) time.Duration { return least + time.Duration(r.Int64N(int64(most-least)+1)) }
}

// LongTail is mostly near typical, and now and then far more: an exponential
// distribution on top of half of it.
func LongTail(typical time.Duration) Delay {
	return func(r *rand.Rand) time.Duration {
		return typical/2 + time.Duration(r.ExpFloat64()*float64(typical)/2)
	}
}

// Trouble is what befalls every link between hosts, and every process, besides
// what they have of their own.
type Trouble struct {
	Loss, Duplicate, Reorder, Dribble float64
	Spurious                          float64 // the share of waits that end early
}

// SetTrouble sets the trouble from now on.
func (w *World) SetTrouble(t Trouble) { w.trouble = t }

// Link is the way from one host to another, in that direction.
type Link struct {
	w        *World
	from, to *Host
	rand     *rand.Rand

	Delay     Delay   // nil for the world's
	Rate      int64   // bytes in a second; 0 for any number
	Down      bool    // nothing passes
	Loss      float64 // the share of datagrams lost; segments are sent again
	Duplicate float64 // the share of datagrams that come twice
	Reorder   float64 // the share of datagrams that are held up
	Dribble   float64 // the share of segments that are cut into small ones

	free time.Duration // when the line is free again, if it has a rate
}

// Link is the way from a to b.
func (w *World) Link(a, b *Host) *Link {
	key := [2]*Host{a, b}
	l := w.links[key]
	if l == nil {
		l = &Link{w: w, from: a, to: b, rand: w.Rand("link " + a.name + "\x00" + b.name)}
		w.links[key] = l
	}
	return l
}

// Cut lets nothing pass, or everything again.
func (l *Link) Cut(cut bool) {
	if l.Down == cut {
		return
	}
	l.Down = cut
	kind := Healed
	if cut {
		kind = Parted
	}
	l.w.trace.add(l.w, traceEvent{kind: kind, from: l.from.id, to: l.to.id})
}

// Limit lets so many bytes pass in a second; 0 for any number.
func (l *Link) Limit(bytesPerSecond int64) {
	if l.Rate == bytesPerSecond {
		return
	}
	l.Rate = bytesPerSecond
	note := "any number of bytes in a second"
	if bytesPerSecond > 0 {
		note = fmt.Sprintf("%d bytes in a second", bytesPerSecond)
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

// local tells whether the link does not leave its host: there it takes no time.
func (l *Link) local() bool { return l.from == l.to }

// immediate tells whether what is sent now is there: within a host, unless it was
// told otherwise.
func (l *Link) immediate() bool {
	return l.local() && l.Delay == nil && l.Rate == 0 && l.Loss == 0 && l.Duplicate == 0 && l.Reorder == 0
}

// depart is when n bytes that are sent now have left.
func (l *Link) depart(n int) time.Duration {
	now := l.w.Now()
	if l.Rate <= 0 {
		return now
	}
	l.free = max(l.free, now) + time.Duration(math.Ceil(float64(n)*float64(time.Second)/float64(l.Rate)))
	return l.free
}

// travel is how long it takes after that.
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

// chance is true with a probability: the link's own or that of the trouble.
func (l *Link) chance(own, trouble float64) bool {
	if l.local() {
		trouble = 0
	}
	p := max(own, trouble)
	return p > 0 && l.rand.Float64() < p
}

func (l *Link) loses() bool   { return l.chance(l.Loss, l.w.trouble.Loss) }
func (l *Link) doubles() bool { return l.chance(l.Duplicate, l.w.trouble.Duplicate) }

// passes tells whether a segment sent now gets through.
func (l *Link) passes() bool { return !l.Down && !l.loses() }

// segment is how many of n bytes go in one piece.
func (l *Link) segment(n int) int {
	n = min(n, mostSegment)
	if n > 1 && l.chance(l.Dribble, l.w.trouble.Dribble) {
		n = 1 + l.rand.IntN(min(n-1, 32))
	}
	return n
}

// mostSegment is how many bytes travel together at most.
const mostSegment = 64 << 10
