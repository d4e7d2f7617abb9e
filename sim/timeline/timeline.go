// Package timeline draws what happened in a simulated world as a picture (SVG):
// hosts are lanes, time runs downward, messages are arrows from when they were
// sent to when they arrived, and what was dropped, parted, paused or crashed is
// marked.
//
//	timeline.Draw(file, timeline.Picture{Title: "seed 7", Trace: w.Trace()})
//
// It shows the order of things, not their distance: an hour in which nothing
// happens is a little longer than a millisecond.
package timeline

import (
	"io"

	"github.com/spindleloop/spindle/internal/picture"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/sim"
)

// Picture is what is to be drawn.
type Picture struct {
	// Title stands at the top.
	Title string

	// Hosts are the lanes, from the left. Others that have a part in it follow in
	// the order in which they come up.
	Hosts []string

	// Trace is what has happened.
	Trace sim.Trace

	// Ending stands at the bottom, marked as a failure: an error's text. ""
	// for a run that has ended well.
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
