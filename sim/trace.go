package sim

import (
	"io"
	"strings"
	"time"

	"github.com/spindleloop/spindle/internal/picture"
	"github.com/spindleloop/spindle/internal/simkernel"
)

// Event is an entry of a trace: a message between hosts, a message that was dropped,
// or something that happened to a host or a link.
type Event struct {
	At   time.Duration // when it arrived or happened
	Sent time.Duration // when it was sent; equal to At for events that do not travel

	// Kind is the kind of the event. Between two hosts:
	//
	//	"connect"    From requests a connection to To
	//	"connected"  From is connected; the answer left To at Sent
	//	"refused"    From has no listener on the port and has refused To
	//	"data"       bytes of a connection have arrived
	//	"end"        To has received From's end of stream
	//	"reset"      To has received a reset from From
	//	"datagram"   a datagram has arrived
	//	"dropped"    a message from From does not reach To; Note says why
	//	"partition"  the link from From to To is cut
	//	"heal"       the link from From to To works again
	//	"bandwidth"  the link's bandwidth has changed to the value in Note
	//
	// On one host, From:
	//
	//	"crash"      the host has crashed and its programs have ended
	//	"boot"       the host has booted and its programs start again
	//	"pause"      the host's programs are paused
	//	"resume"     the host's programs continue
	//	"clock"      the host's clock was set wrong, as described in Note
	//	"call"       a system call failed, as described in Note
	//	"note"       Host.Note was called with the text in Note
	Kind string

	From, To string // the hosts; equal if the event concerns one host
	Conn     int    // the number of the connection; 0 for none
	Port     int    // the destination port of connections and datagrams
	Size     int    // the number of bytes
	Data     string // the first bytes: World.KeepData of them
	Text     string // the description by World.Format; "" if there is none
	Note     string // further details: why it was dropped, the text of Host.Note
}

// String returns the event as a line of text.
func (e Event) String() string { return simkernel.Event(e).String() }

// Trace is the sequence of events in a world.
type Trace []Event

// Trace returns the events so far. Of a very long run it has the last 262,144.
func (w *World) Trace() Trace {
	w.core.SetFormat(w.format())
	all := w.core.Trace()
	trace := make(Trace, len(all))
	for i, e := range all {
		trace[i] = Event(e)
	}
	return trace
}

// Draw writes a picture of the trace as SVG. Hosts are lanes, and time runs downward.
// Messages are arrows from the time of sending to that of arrival. Dropped messages,
// partitions, pauses and crashes are marked. The picture shows the order of events, not
// their distance: an hour without events is only a little longer than a millisecond.
//
// The title is at the top. The ending is an error's text, drawn at the bottom as a
// failure; "" is for a run that has not failed. The hosts are the lanes, from the left;
// other hosts of the trace follow in the order of their first events.
func (t Trace) Draw(out io.Writer, title, ending string, hosts ...string) error {
	events := make([]simkernel.Event, len(t))
	for i, e := range t {
		events[i] = simkernel.Event(e)
	}
	return picture.Draw(out, picture.Picture{Title: title, Hosts: hosts, Trace: events, Ending: ending})
}

// format returns Format for the kernel's events.
func (w *World) format() func(simkernel.Event) string {
	if w.Format == nil {
		return nil
	}
	return func(e simkernel.Event) string { return w.Format(Event(e)) }
}

// Steps returns the number of steps of the simulation so far. It includes steps that no
// trace shows: acknowledgements and timers.
func (w *World) Steps() uint64 { return w.core.Steps() }

// Hash returns a hash of everything that has happened. It includes the bytes sent,
// the order in which programs ran, and events that the trace no longer holds. Two
// runs of a program with the same seed have the same hash.
func (w *World) Hash() uint64 { return w.core.Hash() }

// String returns the trace as text, one line per event.
func (t Trace) String() string {
	var b strings.Builder
	for _, e := range t {
		b.WriteString(e.String())
		b.WriteByte('\n')
	}
	return b.String()
}
