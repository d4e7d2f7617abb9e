package sim

import (
	"math/rand/v2"
	"time"

	"github.com/spindleloop/spindle/internal/simnet"
)

// Delay draws how long something takes. Fixed, Uniform and LongTail make some.
type Delay func(r *rand.Rand) time.Duration

// Fixed is always d.
func Fixed(d time.Duration) Delay { return Delay(simnet.Fixed(d)) }

// Uniform is anything from least to most.
func Uniform(least, most time.Duration) Delay { return Delay(simnet.Uniform(least, most)) }

// LongTail is mostly near typical, and now and then far more.
func LongTail(typical time.Duration) Delay { return Delay(simnet.LongTail(typical)) }

// Link is the way between two hosts, in both directions or in one.
type Link struct{ ways []*simnet.Link }

// Link is the way between two hosts, in both directions. Within a host there is
// one too: it takes no time unless it is told to.
func (w *World) Link(a, b *Host) Link {
	l := w.OneWay(a, b)
	if a != b {
		l.ways = append(l.ways, w.core.Link(b.core, a.core))
	}
	return l
}

// OneWay is the way from one host to another, and not back.
func (w *World) OneWay(from, to *Host) Link {
	return Link{[]*simnet.Link{w.core.Link(from.core, to.core)}}
}

func (l Link) each(set func(*simnet.Link)) Link {
	for _, way := range l.ways {
		set(way)
	}
	return l
}

// Latency sets how long things travel. Without it, it is the world's.
func (l Link) Latency(d Delay) Link {
	return l.each(func(way *simnet.Link) { way.Delay = simnet.Delay(d) })
}

// Bandwidth sets how many bytes pass in a second; 0 means any number.
func (l Link) Bandwidth(bytesPerSecond int) Link {
	return l.each(func(way *simnet.Link) { way.Limit(int64(bytesPerSecond)) })
}

// Loss sets the share of datagrams that are lost, from 0 to 1. Of connections it
// is the share of segments that have to be sent again, after a while.
func (l Link) Loss(share float64) Link {
	return l.each(func(way *simnet.Link) { way.Loss = share })
}

// Duplicate sets the share of datagrams that arrive twice.
func (l Link) Duplicate(share float64) Link {
	return l.each(func(way *simnet.Link) { way.Duplicate = share })
}

// Reorder sets the share of datagrams that are held up, so that others overtake
// them.
func (l Link) Reorder(share float64) Link {
	return l.each(func(way *simnet.Link) { way.Reorder = share })
}

// Dribble sets the share of segments of connections that come in small pieces.
func (l Link) Dribble(share float64) Link {
	return l.each(func(way *simnet.Link) { way.Dribble = share })
}

// Cut lets nothing pass any more. Datagrams are lost; connections try again, and
// fail after a quarter of an hour. What is on its way arrives.
func (l Link) Cut() Link { return l.each(func(way *simnet.Link) { way.Cut(true) }) }

// Mend ends a Cut.
func (l Link) Mend() Link { return l.each(func(way *simnet.Link) { way.Cut(false) }) }

// Partition cuts two hosts off from each other, in both directions; for one
// direction cut OneWay.
func (w *World) Partition(a, b *Host) { w.Link(a, b).Cut() }

// Isolate cuts a host off from all others that there are.
func (w *World) Isolate(h *Host) {
	for _, o := range w.hosts {
		if o != h {
			w.Partition(h, o)
		}
	}
}

// Heal mends every link.
func (w *World) Heal() { w.core.Heal() }

// SetLatency sets how long things travel between hosts whose link was not told
// otherwise. It begins as something from 0.2 to 1 millisecond.
func (w *World) SetLatency(d Delay) { w.core.SetDelay(simnet.Delay(d)) }

// SetWorkTime sets how long offloaded work takes, look-ups of names among it. It
// begins as no time.
func (w *World) SetWorkTime(d Delay) { w.core.SetWorkTime(simnet.Delay(d)) }
