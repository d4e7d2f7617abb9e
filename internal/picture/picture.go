// Package picture draws a trace of a simulated world: as SVG, and as a page in HTML with the
// picture, its story, and the difference from a run that does not fail. Package sim and the worlds
// of Python use it.
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

// Picture is a trace and its captions.
type Picture struct {
	// Title is the caption at the top.
	Title string

	// Hosts are the lanes, from the left. Other hosts of the trace follow in the order
	// of their first events.
	Hosts []string

	// Trace has the events.
	Trace []simkernel.Event

	// Numbers are those of the events, for a script that finds them. It may be nil. An
	// event without a number has 0.
	Numbers []int

	// Ending is an error's text, drawn at the bottom as a failure. It is "" for a run
	// that has not failed.
	Ending string
}

// Draw writes the picture as SVG, in light or dark colours as the viewer prefers.
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
	rightSpace = 260 // for a note of maxNote letters
	titleSpace = 46
	topSpace   = 112 // to the first event
	rowSpace   = 19  // between two events
	lineHeight = 17  // of the ending
	sendSpace  = 7   // in front of a departure
	gapSpace   = 7   // for each factor of ten of a time without events, above a millisecond
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

// drawing is the state of Draw.
type drawing struct {
	Picture
	out    *bufio.Writer
	lanes  []string
	ending []string // lines of Ending
	labels []string // drawn last
	number int      // of the event that is drawn; 0 for none
	plates []plate  // rectangles of the labels
	marks  []mark   // in the order of the trace
	height float64
	bottom float64

	places map[time.Duration]float64 // height of each time
}

// mark is an event with its position.
type mark struct {
	simkernel.Event
	number   int // 0 for none
	kind     simkernel.Kind
	request  time.Duration // when the request was sent that this answers
	answers  bool          // it answers a request
	row      int           // among marks of the same lanes and time
	from, to float64       // heights of departure and arrival
}

// place computes the height of every mark.
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
		if m.answers {
			see(m.request, false, 0)
		}
	}
	moments := make([]*moment, 0, len(byTime))
	for _, m := range byTime { // any order: sorted below
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

// stretch returns the height of a time without events.
func stretch(gap time.Duration) float64 {
	if gap <= time.Millisecond {
		return 0
	}
	return gapSpace * math.Log10(float64(gap)/float64(time.Millisecond))
}

// collect makes marks of events. A request to connect is drawn with its answer, and data
// that arrived together is one mark.
func (d *drawing) collect() {
	type pair struct {
		from, to string
		port     int
	}
	type spot struct {
		from, to string
		at       time.Duration
	}
	requests := map[pair]time.Duration{}
	rows := map[spot]int{}
	orderly := d.orderly()
	for i, e := range d.Trace {
		m := mark{Event: e, kind: e.KindOf()}
		if i < len(d.Numbers) {
			m.number = d.Numbers[i]
		}
		switch m.kind {
		case simkernel.Ended:
			if orderly[e.Conn] {
				continue
			}
		case simkernel.Connecting:
			requests[pair{e.From, e.To, e.Port}] = e.At
			continue
		case simkernel.Connected:
			m.request, m.answers = take(requests, pair{e.From, e.To, e.Port})
		case simkernel.Refused:
			m.request, m.answers = take(requests, pair{e.To, e.From, e.Port})
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

// orderly returns the connections that both sides have ended. Their ends are not drawn.
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

// answered reports whether m is the answer to a request to connect. Only the request is
// drawn.
func (m *mark) answered() bool { return m.kind == simkernel.Connected && m.answers }

func take[K comparable](from map[K]time.Duration, key K) (time.Duration, bool) {
	at, ok := from[key]
	delete(from, key)
	return at, ok
}

// joins reports whether e is the next part of the same data.
func (m *mark) joins(e simkernel.Event) bool {
	return m.kind == simkernel.Data && m.Conn == e.Conn && m.From == e.From && m.At == e.At && m.Sent == e.Sent
}

// lane returns the position of a host's lane.
func (d *drawing) lane(host string) float64 {
	return leftMargin + float64(max(slices.Index(d.lanes, host), 0))*laneWidth
}

func (d *drawing) width() float64 {
	return leftMargin + float64(max(len(d.lanes)-1, 1))*laneWidth + rightSpace
}
