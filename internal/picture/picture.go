// Package picture draws what happened in a simulated world as SVG. Package
// sim/timeline gives it to users, and sim.Explore draws its failures with it.
package picture

import (
	"bufio"
	"cmp"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spindleloop/spindle/internal/simkernel"
)

// Picture is what is to be drawn.
type Picture struct {
	// Title stands at the top.
	Title string

	// Hosts are the lanes, from the left. Others that have a part in it follow in
	// the order in which they come up.
	Hosts []string

	// Trace is what has happened.
	Trace []simkernel.Event

	// Ending stands at the bottom, marked as a failure: an error's text. ""
	// for a run that has ended well.
	Ending string
}

// Draw writes the picture as SVG. It is drawn in light or dark colours, as who
// looks at it prefers.
func Draw(out io.Writer, p Picture) error {
	b := bufio.NewWriter(out)
	d := &drawing{out: b, Picture: p, lanes: lanesOf(p)}
	d.place()
	d.draw()
	return b.Flush()
}

// Measures, in pixels.
const (
	laneWidth  = 250 // from one lane to the next
	leftMargin = 190 // from the edge to the first lane: times, and the first lane's labels
	rightSpace = 150
	titleSpace = 46
	topSpace   = 112 // to the first event
	rowSpace   = 19  // between two events
	lineHeight = 17  // of the ending
	sendSpace  = 7   // in front of a departure
	gapSpace   = 7   // for each factor of ten that nothing happened for, from a millisecond on
)

func lanesOf(p Picture) []string {
	lanes := slices.Clone(p.Hosts)
	for _, e := range p.Trace {
		for _, host := range [...]string{e.From, e.To} {
			if host != "" && !slices.Contains(lanes, host) {
				lanes = append(lanes, host)
			}
		}
	}
	return lanes
}

// drawing is a picture in the making.
type drawing struct {
	Picture
	out    *bufio.Writer
	lanes  []string
	ending []string // its lines
	labels []string // drawn last
	plates []plate  // where they are
	marks  []mark   // what is to be drawn, by time
	height float64
	bottom float64

	places map[time.Duration]float64 // of moments
}

// mark is an event with its place.
type mark struct {
	simkernel.Event
	kind     simkernel.Kind
	request  time.Duration // when the Connecting was sent that this answers
	asked    bool          // it answers one
	row      int           // among those of the same lanes that come at the same moment
	from, to float64       // where it leaves and arrives
}

// place gives everything its height.
func (d *drawing) place() {
	d.collect()
	type moment struct {
		at      time.Duration
		arrival bool
		rows    int
	}
	byTime := map[time.Duration]*moment{}
	see := func(at time.Duration, arrival bool, rows int) {
		m := byTime[at]
		if m == nil {
			m = &moment{at: at}
			byTime[at] = m
		}
		m.arrival = m.arrival || arrival
		m.rows = max(m.rows, rows)
	}
	for i := range d.marks {
		m := &d.marks[i]
		see(m.Sent, m.answered(), 0)
		if !m.answered() {
			see(m.At, true, m.row)
		}
		if m.asked {
			see(m.request, false, 0)
		}
	}
	moments := make([]*moment, 0, len(byTime))
	for _, m := range byTime {
		moments = append(moments, m)
	}
	slices.SortFunc(moments, func(a, b *moment) int { return cmp.Compare(a.at, b.at) })
	d.places = map[time.Duration]float64{}
	y := float64(topSpace)
	for i, m := range moments {
		if i > 0 {
			y += stretch(m.at - moments[i-1].at)
			if m.arrival {
				y += rowSpace
			} else {
				y += sendSpace
			}
		}
		d.places[m.at] = y
		y += float64(m.rows) * rowSpace
	}
	d.bottom = y + rowSpace
	d.height = d.bottom + 20
	if d.Ending != "" {
		d.ending = wrap(strings.TrimPrefix(d.Ending, "sim: "), int(d.width()-70)/7)
		d.height += float64(len(d.ending))*lineHeight + 16
	}
	for i := range d.marks {
		m := &d.marks[i]
		m.from, m.to = d.places[m.Sent], d.places[m.At]+float64(m.row)*rowSpace
		switch {
		case m.answered():
			m.to = m.from
		case m.Sent == m.At:
			m.from = m.to
		}
	}
}

// stretch is the room for a time in which nothing happened.
func stretch(gap time.Duration) float64 {
	if gap <= time.Millisecond {
		return 0
	}
	return gapSpace * math.Log10(float64(gap)/float64(time.Millisecond))
}

// collect makes marks of events: connects are told by their answers, and pieces of
// data that came together are one.
func (d *drawing) collect() {
	type pair struct {
		from, to string
		port     int
	}
	type spot struct {
		from, to string
		at       time.Duration
	}
	asked := map[pair]time.Duration{}
	rows := map[spot]int{}
	orderly := d.orderly()
	for _, e := range d.Trace {
		m := mark{Event: e, kind: e.KindOf()}
		switch m.kind {
		case simkernel.Ended:
			if orderly[e.Conn] {
				continue
			}
		case simkernel.Connecting:
			asked[pair{e.From, e.To, e.Port}] = e.At
			continue
		case simkernel.Connected:
			m.request, m.asked = take(asked, pair{e.From, e.To, e.Port})
		case simkernel.Refused:
			m.request, m.asked = take(asked, pair{e.To, e.From, e.Port})
		case simkernel.Data:
			if last := len(d.marks) - 1; last >= 0 && d.marks[last].joins(e) {
				d.marks[last].Size += e.Size
				d.marks[last].Data += e.Data
				continue
			}
		}
		s := spot{min(e.From, e.To), max(e.From, e.To), e.At}
		m.row = rows[s]
		rows[s]++
		d.marks = append(d.marks, m)
	}
}

// orderly are the connections that both sides have ended. Their ends say nothing and
// are left out.
func (d *drawing) orderly() map[int]bool {
	type side struct {
		conn int
		from string
	}
	ended, orderly := map[side]bool{}, map[int]bool{}
	for _, e := range d.Trace {
		if e.KindOf() == simkernel.Ended {
			ended[side{e.Conn, e.From}] = true
			orderly[e.Conn] = ended[side{e.Conn, e.To}]
		}
	}
	for _, e := range d.Trace {
		if e.KindOf() == simkernel.Reset {
			orderly[e.Conn] = false
		}
	}
	return orderly
}

// answered reports whether m is a request that was answered: only the request is
// drawn.
func (m *mark) answered() bool { return m.kind == simkernel.Connected && m.asked }

func take[K comparable](from map[K]time.Duration, key K) (time.Duration, bool) {
	at, ok := from[key]
	delete(from, key)
	return at, ok
}

// joins tells whether e is the next piece of the same data.
func (m *mark) joins(e simkernel.Event) bool {
	return m.kind == simkernel.Data && m.Conn == e.Conn && m.From == e.From && m.At == e.At && m.Sent == e.Sent
}

// lane is where a host's lane is.
func (d *drawing) lane(host string) float64 {
	return leftMargin + float64(max(slices.Index(d.lanes, host), 0))*laneWidth
}

func (d *drawing) width() float64 {
	return leftMargin + float64(max(len(d.lanes)-1, 1))*laneWidth + rightSpace
}
