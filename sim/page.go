package sim

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/picture"
)

// Page writes a page in HTML that shows the failure. It begins with the difference from the nearest
// run that does not fail, and has a story in words, a picture with a lane for each host, the tasks
// at the end, and the trace. HTTP, WebSocket and other known protocols are decoded. The page needs no
// other file. The command that replays the failure is again; if it is "", the page has none.
//
// Page runs the world a few times more: to name the tasks that send, and to find runs to compare.
// A failure that Find has not returned is shown without them.
func (f *Failure) Page(out io.Writer, again string) error {
	w := f.World
	if named := f.named(); named != nil {
		w = named
	}
	w.core.SetFormat(w.format())
	p := picture.Page{
		Title: fmt.Sprintf("%sseed %d", f.title, w.Seed()), Trace: w.core.Trace(), Senders: w.core.Senders(), Repeat: again,
		Faults: f.needs(), Passing: f.passing(), Tasks: tasksOf(w.recorder.kept),
	}
	if f.Err != nil {
		p.Ending = f.Err.Error()
	}
	for _, h := range w.hosts {
		p.Hosts = append(p.Hosts, h.Name())
	}
	return p.Write(out)
}

// needs describes the faults and amounts of the failure.
func (f *Failure) needs() (all []string) {
	for _, fault := range f.World.scheduled() {
		all = append(all, fault.String())
	}
	for _, part := range f.Parts() {
		if isRate(part) || strings.Contains(part, "=") {
			all = append(all, part)
		}
	}
	return all
}

// keptOnPage is how many bytes of a message a page decodes.
const keptOnPage = 4096

// named runs the failure again, with the names of tasks that send. It returns nil if the run is not
// the same.
func (f *Failure) named() *World {
	if f.again == nil {
		return nil
	}
	g := f.again(f.World.Seed(), f.World.only, func(w *World) {
		w.core.NameTasks()
		w.KeepData = max(w.KeepData, keptOnPage)
		w.InspectEvery = math.MaxInt64 / 2 // the state at the end is recorded
	})
	if g.World.Hash() != f.World.Hash() {
		return nil
	}
	return g.World
}

// Runs that are tried to compare a failure with.
const (
	triedParts = 8
	triedSeeds = 12
	compared   = 6 // that do not fail
)

// passing returns runs that do not fail and are near to the failure: without one of the faults that it needs; if there
// is none, with other seeds; and if each of those fails, with one less of an amount.
func (f *Failure) passing() (runs []picture.Run) {
	if f.again == nil {
		return nil
	}
	try := func(name string, seed uint64, only parts) {
		if g := f.again(seed, only, nil); g.Err == nil && len(runs) < compared {
			g.World.core.SetFormat(g.World.format())
			runs = append(runs, picture.Run{Name: name, Trace: g.World.core.Trace()})
		}
	}
	faults := f.faults()
	for i, fault := range faults[:min(len(faults), triedParts)] {
		try("without "+f.inWords(fault), f.World.Seed(), onlyParts(slices.Delete(slices.Clone(faults), i, i+1), f.amounts()))
	}
	if len(runs) > 0 {
		return runs
	}
	for n := uint64(1); n <= triedSeeds && len(runs) < compared; n++ {
		seed := f.World.Seed() + n
		try(fmt.Sprint("seed ", seed), seed, f.World.only)
	}
	if len(runs) > 0 {
		return runs
	}
	for _, a := range f.World.amounts { // last: a client less is a difference that explains little
		if a.n > 1 {
			less := amount{a.name, a.n - 1, a.most}
			try("with "+less.String(), f.World.Seed(), onlyParts(faults, f.amountsWith(less)))
		}
	}
	return runs
}

// inWords describes a fault by its name in faults.
func (f *Failure) inWords(name string) string {
	n, err := strconv.Atoi(name)
	if err != nil {
		return name // a rate
	}
	fault := f.World.script[n]
	return fmt.Sprintf("“%s” at %v", fault.what, fault.at)
}

// tasksOf returns the tasks of each host in the last snapshot, as text.
func tasksOf(recorded []*inspect.SnapshotAnswer) (all []picture.Tasks) {
	if len(recorded) == 0 {
		return nil
	}
	a := recorded[len(recorded)-1]
	for _, l := range a.Loops {
		var b strings.Builder
		for _, t := range a.Tasks {
			if t.Loop == l.ID {
				fmt.Fprintf(&b, "%s%s: %s (%s)\n", strings.Repeat("  ", t.Depth), t.Name, cmp.Or(t.WaitsFor, t.State), t.Function)
			}
		}
		if b.Len() > 0 {
			all = append(all, picture.Tasks{Host: l.Name, Text: b.String()})
		}
	}
	return all
}
