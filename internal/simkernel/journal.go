package simkernel

import (
	"fmt"
	"hash/crc32"
	"runtime/debug"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/kernel"
)

// A journal lists what programs did to their kernels, so that a second run with the
// same seed can find its first difference where it is made: while the program that
// makes it is running, with its stack.

// Journal is what programs have done.
type Journal struct {
	deeds  []deed
	before *Journal    // of the run to compare with; nil for none
	first  *Difference // from it
}

// deed is something that a program did.
type deed struct {
	at   time.Duration
	what deedKind
	host int32
	size int
	sum  uint32 // of bytes, an address or a text
}

type deedKind uint8

const (
	sends deedKind = iota
	connects
	waits
	notes
)

func (d deed) String() string {
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

// mostDeeds is how many are kept; of a longer run, the first ones.
const mostDeeds = 1 << 20

// Difference is where two runs with one seed first differed.
type Difference struct {
	Number    int           // of the deed
	At        time.Duration // in the second run
	Host      string
	Tasks     string // those that can have made it; "" if they are not known
	Line      string // of the program; "" if it was not running
	Once, Now string // what was done
}

// Record starts the journal of a world, and compares it with that of a run before;
// nil for none.
func (w *World) Record(before *Journal) { w.journal = &Journal{before: before} }

// Journal is what has been recorded; nil if nothing is.
func (w *World) Journal() *Journal { return w.journal }

// Difference is the first from the journal before; nil if none was found.
func (j *Journal) Difference() *Difference {
	if j == nil {
		return nil
	}
	return j.first
}

// did takes note of what a program does, if there is a journal.
func (p *Process) did(what deedKind, size int, bytes []byte) {
	if j := p.w.journal; j != nil {
		j.add(p.w, p.host, p, deed{p.w.Now(), what, p.host.id, size, crc32.Checksum(bytes, castagnoli)})
	}
}

func (p *Process) didConnect(a kernel.Addr) {
	if p.w.journal != nil {
		p.did(connects, 0, fmt.Append(nil, a))
	}
}

func (j *Journal) add(w *World, h *Host, p *Process, d deed) {
	n := len(j.deeds)
	if n < mostDeeds {
		j.deeds = append(j.deeds, d)
	}
	if j.before == nil || j.first != nil || n >= mostDeeds || n < len(j.before.deeds) && j.before.deeds[n] == d {
		return
	}
	j.first = &Difference{Number: n + 1, At: d.at, Now: d.String(), Once: "ends", Line: goid.Line(debug.Stack())}
	if h != nil {
		j.first.Host = h.name
	}
	if n < len(j.before.deeds) {
		old := j.before.deeds[n]
		if j.first.Once = old.String(); old.host != d.host {
			j.first.Once = fmt.Sprintf("host %s %s", w.hostName(old.host), j.first.Once)
		} else if old.at != d.at {
			j.first.Once += fmt.Sprintf(" at %v", old.at)
		}
	}
	if p != nil && p.Describe != nil {
		j.first.Tasks = p.Describe()
	}
}
