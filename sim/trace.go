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

// Events is how many events there were.
func (w *World) Events() uint64 { return w.core.Events() }

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
