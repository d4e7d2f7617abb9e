package sim

import (
	"strings"

	"github.com/spindleloop/spindle/internal/simnet"
)

// Event is a line of a trace: something that happened in the network or to a host.
type Event = simnet.Event

// Trace is what has happened in a world, in order.
type Trace []Event

// Trace is what has happened so far: of a very long run, the last 262,144 events.
func (w *World) Trace() Trace { return w.core.Trace() }

// Events is how many events the trace would hold if it held all.
func (w *World) Events() uint64 { return w.core.Events() }

// Steps is how many things have happened, those included that are in no trace:
// acknowledgements and timers.
func (w *World) Steps() uint64 { return w.core.Steps() }

// KeepTrace says whether the trace is kept, for runs of which only the outcome is
// wanted. Hash covers everything either way.
func (w *World) KeepTrace(on bool) { w.core.KeepTrace(on) }

// Hash stands for everything that has happened: also the bytes sent, the order in
// which programs ran, and what the trace no longer holds. Two runs of one program
// with one seed have the same.
func (w *World) Hash() uint64 { return w.core.Hash() }

func (t Trace) String() string {
	var b strings.Builder
	for _, e := range t {
		b.WriteString(e.String())
		b.WriteByte('\n')
	}
	return b.String()
}
