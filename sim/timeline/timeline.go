// Package timeline draws a trace of a simulated world as a picture (SVG). Hosts are lanes,
// and time runs downward. Messages are arrows from the time of sending to that of arrival.
// Dropped messages, partitions, pauses and crashes are marked.
//
//	timeline.Draw(file, timeline.Picture{Title: "seed 7", Trace: w.Trace()})
//
// The picture shows the order of events, not their distance: an hour without events is
// only a little longer than a millisecond.
package timeline

import (
	"io"

	"github.com/spindleloop/spindle/internal/picture"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/sim"
)

// Picture is a trace and its captions.
type Picture struct {
	// Title is the caption at the top.
	Title string

	// Hosts are the lanes, from the left. Other hosts of the trace follow in the order
	// of their first events.
	Hosts []string

	// Trace has the events.
	Trace sim.Trace

	// Ending is an error's text, drawn at the bottom as a failure. It is "" for a run
	// that has not failed.
	Ending string
}

// Draw writes the picture as SVG, in light or dark colours, as the viewer prefers.
func Draw(out io.Writer, p Picture) error {
	events := make([]simkernel.Event, len(p.Trace))
	for i, e := range p.Trace {
		events[i] = simkernel.Event(e)
	}
	return picture.Draw(out, picture.Picture{Title: p.Title, Hosts: p.Hosts, Trace: events, Ending: p.Ending})
}
