package sim

import (
	"math/rand/v2"
	"time"

	"github.com/spindleloop/spindle/internal/simkernel"
)

// Delay draws a duration, for example a latency. Fixed, Uniform and LongTail make
// Delays.
type Delay func(r *rand.Rand) time.Duration

// Fixed returns a Delay that is always d.
func Fixed(d time.Duration) Delay { return Delay(simkernel.Fixed(d)) }

// Uniform returns a Delay distributed evenly from least to most.
func Uniform(least, most time.Duration) Delay { return Delay(simkernel.Uniform(least, most)) }

// LongTail returns a Delay that is mostly near typical and occasionally far longer.
func LongTail(typical time.Duration) Delay { return Delay(simkernel.LongTail(typical)) }

// Link is the connection between two hosts, in one direction or in both.
type Link struct{ ways []*simkernel.Link }

// Link returns the link between two hosts, in both directions. If a and b are the
// same, it is the host's loopback, which has no latency unless one is set.
func (w *World) Link(a, b *Host) Link {
	l := w.OneWay(a, b)
	if a != b {
		l.ways = append(l.ways, w.core.Link(b.core, a.core))
	}
	return l
}

// OneWay returns the link from one host to another, without the way back.
func (w *World) OneWay(from, to *Host) Link {
	return Link{[]*simkernel.Link{w.core.Link(from.core, to.core)}}
}

// each applies set to every direction of the link.
func (l Link) each(set func(*simkernel.Link)) Link {
	for _, way := range l.ways {
		set(way)
	}
	return l
}

// LinkOptions say how a link treats what passes. The zero value is how a link begins.
type LinkOptions struct {
	// Latency is how long a segment or a datagram takes. Nil means World.Latency.
	Latency Delay

	// Bandwidth is how many bytes pass per second; 0 means no limit.
	Bandwidth int

	// Loss is the share of datagrams that are lost, from 0 to 1. For connections it is the
	// share of segments that are retransmitted after a timeout.
	Loss float64

	// Duplicate is the share of datagrams that arrive twice.
	Duplicate float64

	// Reorder is the share of datagrams that are delayed, so that later ones overtake them.
	Reorder float64

	// Dribble is the share of a connection's segments that arrive in small pieces.
	Dribble float64
}

// Set sets all options of the link.
func (l Link) Set(o LinkOptions) Link {
	return l.each(func(way *simkernel.Link) {
		way.Delay = simkernel.Delay(o.Latency)
		way.Loss, way.Duplicate, way.Reorder, way.Dribble = o.Loss, o.Duplicate, o.Reorder, o.Dribble
		way.Limit(int64(o.Bandwidth))
	})
}

// Cut blocks the link. Datagrams are lost. Connections retransmit and fail after a
// quarter of an hour. Data already in flight arrives.
func (l Link) Cut() Link { return l.each(func(way *simkernel.Link) { way.Cut(true) }) }

// Mend ends a Cut.
func (l Link) Mend() Link { return l.each(func(way *simkernel.Link) { way.Cut(false) }) }

// Partition cuts the links between h and the given hosts, in both directions. Without
// other hosts, it cuts h off from every present host. For one direction, cut OneWay.
func (w *World) Partition(h *Host, others ...*Host) {
	if len(others) == 0 {
		others = w.hosts
	}
	for _, o := range others {
		if o != h {
			w.Link(h, o).Cut()
		}
	}
}

// Heal mends every link.
func (w *World) Heal() { w.core.Heal() }
