package sim

import (
	"strings"
	"time"

	"github.com/spindleloop/spindle/internal/simkernel"
)

// Event is an entry of a trace: a message between hosts, a message that was dropped,
// or something that happened to a host or a link.
type Event struct {
	At       time.Duration // when it arrived or happened
	Sent     time.Duration // when it was sent; equal to At for events that do not travel
	Kind     Kind
	From, To string // the hosts; equal if the event concerns one host
	Conn     int    // the number of the connection; 0 for none
	Port     int    // the destination port of Connecting, Connected, Refused and datagrams
	Size     int    // the number of bytes
	Data     string // the first bytes: 200, or as many as World.KeepData sets
	Text     string // the description by World.SetFormat; "" if there is none
	Note     string // further details: why it was dropped, the text of Host.Note
}

// Kind is the kind of an Event.
type Kind = simkernel.Kind

// Kinds of events between two hosts.
const (
	Connecting = simkernel.Connecting // From requests a connection to To
	Connected  = simkernel.Connected  // From is connected; the answer left To at Sent
	Refused    = simkernel.Refused    // From has no listener on the port and has refused To
	Data       = simkernel.Data       // bytes of a connection have arrived
	Ended      = simkernel.Ended      // To has received From's end of stream
	Reset      = simkernel.Reset      // To has received a reset from From
	Datagram   = simkernel.Datagram   // a datagram has arrived
	Dropped    = simkernel.Dropped    // a message from From does not reach To; Note says what or why
	Parted     = simkernel.Parted     // the link from From to To is cut
	Healed     = simkernel.Healed     // the link from From to To works again
	RateSet    = simkernel.RateSet    // the link's bandwidth has changed to the value in Note
)

// Kinds of events of one host, From.
const (
	Crashed    = simkernel.Crashed    // the host has crashed and its programs have ended
	Booted     = simkernel.Booted     // the host has booted and its programs start again
	Paused     = simkernel.Paused     // the host's programs are paused
	Resumed    = simkernel.Resumed    // the host's programs continue
	ClockSet   = simkernel.ClockSet   // the host's clock was set wrong, as described in Note
	CallFailed = simkernel.CallFailed // a system call failed, as described in Note
	Noted      = simkernel.Noted      // Host.Note was called with the text in Note
)

// String returns the event as a line of text.
func (e Event) String() string { return simkernel.Event(e).String() }

// Trace is the sequence of events in a world.
type Trace []Event

// Trace returns the events so far. Of a very long run it has the last 262,144.
func (w *World) Trace() Trace {
	all := w.core.Trace()
	trace := make(Trace, len(all))
	for i, e := range all {
		trace[i] = Event(e)
	}
	return trace
}

// Events returns the number of events so far, including those that the trace no
// longer holds.
func (w *World) Events() uint64 { return w.core.Events() }

// Steps returns the number of steps of the simulation so far. It includes what no
// trace shows: acknowledgements and timers.
func (w *World) Steps() uint64 { return w.core.Steps() }

// KeepData sets how many bytes of each message the trace keeps. The default is 200.
func (w *World) KeepData(n int) { w.core.KeepData(n) }

// SetFormat sets a function that describes a message for people: a request by its
// name, for example, instead of its bytes. When the trace is read, the function is
// called for each event with bytes that arrived or were dropped. If it returns "", the
// trace shows the bytes. Event.Data holds as much of the message as KeepData allows.
// On a connection it holds the bytes that arrived together, which may be less or more
// than one message.
func (w *World) SetFormat(format func(e Event) string) {
	w.core.SetFormat(func(e simkernel.Event) string { return format(Event(e)) })
}

// KeepTrace sets whether the trace is kept. Turn it off for runs where only the
// outcome matters. Hash covers everything either way.
func (w *World) KeepTrace(on bool) { w.core.KeepTrace(on) }

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
