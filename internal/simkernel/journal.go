package simkernel

import (
	"fmt"
	"hash/crc32"
	"runtime/debug"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/kernel"
)

// A journal lists what programs did with their kernels. A second run with the same seed
// compares itself with the journal, and finds the first difference while the program that
// makes it is running, with its stack.

// Journal lists the actions of the programs of a world.
type Journal struct {
	w       *World
	actions []action
	before  *Journal    // of the run to compare with; nil for none
	first   *Difference // from before; nil for none
}

// action is something that a program did.
type action struct {
	at   time.Duration
	what actionKind
	host int32
	size int64  // of bytes, or a time
	sum  uint32 // checksum of bytes, an address or a text
}

type actionKind uint8

const (
	sends actionKind = iota
	connects
	waits
	notes
)

func (d action) String() string {
	switch d.what {
	case sends:
		return fmt.Sprintf("sends %d bytes (checksum %08x)", d.size, d.sum)
	case connects:
		return fmt.Sprintf("connects to another address (checksum %08x)", d.sum)
	case notes:
		return fmt.Sprintf("notes a text (checksum %08x)", d.sum)
	}
	if d.size < 0 {
		return "waits without a timer"
	}
	return fmt.Sprintf("waits until %v", time.Duration(d.size))
}

// maxActions is the maximal number of actions in a journal. Later ones are not kept.
const maxActions = 1 << 20

// Difference is the first difference between two runs with the same seed.
type Difference struct {
	Number    int           // of the action, from 1
	At        time.Duration // in the second run
	Host      string
	Tasks     string // the tasks that can have caused it; "" if they are not known
	Line      string // in the program; "" if it was not running
	Once, Now string // the actions of the two runs
}

// Record starts a journal, and compares it with that of an earlier run unless before is
// nil.
func (w *World) Record(before *Journal) { w.journal = &Journal{w: w, before: before} }

// Journal returns the world's journal, or nil if there is none.
func (w *World) Journal() *Journal { return w.journal }

// Differs reports whether the run has differed from the earlier one so far.
func (j *Journal) Differs() bool { return j != nil && j.first != nil }

// Difference returns the first difference from the earlier run, or nil if there is none.
func (j *Journal) Difference() *Difference {
	if j == nil {
		return nil
	}
	if n := len(j.actions); j.first == nil && j.before != nil && n < len(j.before.actions) {
		old := j.before.actions[n]
		return &Difference{Number: n + 1, At: old.at, Host: j.before.w.hostName(old.host), Once: "it " + old.String(), Now: "the run has ended"}
	}
	return j.first
}

// record adds an action to the journal, if there is one.
func (p *Process) record(what actionKind, size int64, bytes []byte) {
	if j := p.w.journal; j != nil {
		j.add(p.w, p.host, p, action{p.w.Now(), what, p.host.id, size, crc32.Checksum(bytes, castagnoli)})
	}
}

func (p *Process) recordConnect(a kernel.Addr) {
	if p.w.journal != nil {
		p.record(connects, 0, fmt.Append(nil, a))
	}
}

func (j *Journal) add(w *World, h *Host, p *Process, d action) {
	n := len(j.actions)
	if n < maxActions {
		j.actions = append(j.actions, d)
	}
	if j.before == nil || j.first != nil || n >= maxActions || n < len(j.before.actions) && j.before.actions[n] == d {
		return
	}
	j.first = &Difference{Number: n + 1, At: d.at, Now: "it " + d.String(), Once: "the run has ended", Line: goid.Line(debug.Stack())}
	if h != nil {
		j.first.Host = h.name
	}
	if n < len(j.before.actions) {
		old := j.before.actions[n]
		if j.first.Once = "it " + old.String(); old.host != d.host {
			j.first.Once = fmt.Sprintf("host %s %v", j.before.w.hostName(old.host), old)
		}
		if old.at != d.at {
			j.first.Once += fmt.Sprintf(" at %v", old.at)
		}
	}
	if p != nil && p.Describe != nil {
		j.first.Tasks = p.Describe()
	}
}
