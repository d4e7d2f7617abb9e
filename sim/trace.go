package sim

import (
	"strings"
	"time"

	"github.com/spindleloop/spindle/internal/simnet"
)

// Event is a line of a trace: something that went through the network, or did
// not, or happened to a host.
type Event struct {
	At       time.Duration // when it arrived, or happened
	Sent     time.Duration // when it was sent; the same as At for what does not travel
	Kind     Kind
	From, To string // the hosts; the same if it concerns one
	Conn     int    // the number of the connection; 0 for none
	Port     int    // that was asked for, of Connecting, Connected, Refused and datagrams
	Size     int    // how many bytes
	Data     string // the first of them: 200, or as many as World.KeepData says
	Text     string // what they say, by World.SetFormat; "" without
	Note     string // what else is to say: why it was dropped, what was noted
}

// Kind is what an Event tells of.
type Kind = simnet.Kind

// What a trace tells of. From does it, to To:
const (
	Connecting = simnet.Connecting // asks for a connection
	Connected  = simnet.Connected  // has it: the answer of To has come, which left there at Sent
	Refused    = simnet.Refused    // nobody listens on From: it has told To so
	Data       = simnet.Data       // bytes of a connection have arrived
	Ended      = simnet.Ended      // From will send no more on a connection, and To knows
	Reset      = simnet.Reset      // From has broken a connection off, and To knows
	Datagram   = simnet.Datagram   // a datagram has arrived
	Dropped    = simnet.Dropped    // something of From's does not reach To; Note says what or why
	Parted     = simnet.Parted     // nothing of From's reaches To any more
	Healed     = simnet.Healed     // it does again
	RateSet    = simnet.RateSet    // as many bytes pass in a second as Note says
)

// To a host, From:
const (
	Crashed    = simnet.Crashed    // its programs are gone
	Booted     = simnet.Booted     // they begin anew
	Paused     = simnet.Paused     // they stand still
	Resumed    = simnet.Resumed    // they go on
	ClockSet   = simnet.ClockSet   // its clock is off from now on, as Note says
	CallFailed = simnet.CallFailed // a call to the system has failed, as Note says
	Noted      = simnet.Noted      // Host.Note: Note is its text
)

// String is the event as a line of text.
func (e Event) String() string { return simnet.Event(e).String() }

// Trace is what has happened in a world, in order.
type Trace []Event

// Trace is what has happened so far: of a very long run, the last 262,144 events.
func (w *World) Trace() Trace {
	all := w.core.Trace()
	trace := make(Trace, len(all))
	for i, e := range all {
		trace[i] = Event(e)
	}
	return trace
}

// Events is how many events the trace would hold if it held all.
func (w *World) Events() uint64 { return w.core.Events() }

// Steps is how many things have happened, those included that are in no trace:
// acknowledgements and timers.
func (w *World) Steps() uint64 { return w.core.Steps() }

// KeepData sets how many bytes of each message the trace keeps. It begins as 200.
func (w *World) KeepData(n int) { w.core.KeepData(n) }

// SetFormat sets a function that says, for people, what a message is: a request by its
// name, in place of its bytes. It is called with the events of bytes that have arrived
// or were dropped when the trace is read; "" leaves the bytes. Data holds as much of
// the message as KeepData allows. Of a connection, it is what came together, which
// need not be one message.
func (w *World) SetFormat(format func(e Event) string) {
	w.core.SetFormat(func(e simnet.Event) string { return format(Event(e)) })
}

// KeepTrace says whether the trace is kept, for runs of which only the outcome is
// wanted. Hash covers everything either way.
func (w *World) KeepTrace(on bool) { w.core.KeepTrace(on) }

// Hash stands for everything that has happened: also the bytes sent, the order in
// which programs ran, and what the trace no longer holds. Two runs of one program
// with one seed have the same.
func (w *World) Hash() uint64 { return w.core.Hash() }

// String is the trace as text, a line for each event.
func (t Trace) String() string {
	var b strings.Builder
	for _, e := range t {
		b.WriteString(e.String())
		b.WriteByte('\n')
	}
	return b.String()
}
