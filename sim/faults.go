package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/simnet"
)

// Faults are troubles that come by themselves, drawn from the seed. The zero
// value is none. Faults that are to come at a certain time are scripted by
// World.After instead.
type Faults struct {
	// For is how long there is trouble, from the beginning: then every link is
	// mended, every host is up and runs, and a program can be expected to get
	// somewhere. Zero means a minute.
	For time.Duration

	// The shares of datagrams and segments, on every link between hosts, that
	// suffer what Link.Loss, Duplicate, Reorder and Dribble say.
	Loss, Duplicate, Reorder, Dribble float64

	// Spurious is the share of waits that end early, with nothing to tell.
	Spurious float64

	// How often, on average, two hosts are parted, in one direction or both;
	// the way between two of them becomes slow; a host crashes, and is
	// restarted; is paused; gets a clock that runs wrong; or has a call fail
	// for want of descriptors or memory. Zero means never.
	PartitionEvery, SlowEvery, CrashEvery, PauseEvery, ClockEvery, CallEvery time.Duration

	// Lasting is how long each of these lasts, on average. Zero means a tenth
	// of For. The others are for one kind each; zero means Lasting. A call that
	// fails does not last.
	Lasting                                             time.Duration
	PartitionFor, SlowFor, CrashFor, PauseFor, ClockFor time.Duration

	// Hosts are those that crash, pause, have wrong clocks and failing calls.
	// None means all.
	Hosts []*Host
}

// SetFaults has trouble come from when the world is first run.
func (w *World) SetFaults(f Faults) {
	if f.For == 0 {
		f.For = time.Minute
	}
	if f.Lasting == 0 {
		f.Lasting = f.For / 10
	}
	w.faults = &f
}

// Fault is a trouble that came by itself.
type Fault struct {
	At, For time.Duration
	What    string
	begin   func()
	end     func()
}

func (f Fault) String() string {
	if f.For == 0 {
		return fmt.Sprintf("%12v  %s", f.At, f.What)
	}
	return fmt.Sprintf("%12v  %s, for %v", f.At, f.What, f.For)
}

// Script is the faults that SetFaults has made of the seed, in the order of time,
// as far as they were not left out. It is there once the world has run.
func (w *World) Script() []Fault {
	var kept []Fault
	for i, f := range w.script {
		if w.keeps(fmt.Sprint(i)) {
			kept = append(kept, f)
		}
	}
	return kept
}

// keeps tells whether a part of the faults is to come.
func (w *World) keeps(part string) bool { return w.only == nil || w.only[part] }

// beginFaults writes the script and has it played.
func (w *World) beginFaults() {
	f := w.faults
	if f == nil || w.script != nil {
		return
	}
	w.script = w.writeScript(f)
	for i, fault := range w.script {
		if w.keeps(fmt.Sprint(i)) {
			w.After(fault.At, fault.begin)
			if fault.end != nil {
				w.After(fault.At+fault.For, fault.end)
			}
		}
	}
	trouble := simnet.Trouble{}
	for part, set := range map[string]struct {
		to    *float64
		share float64
	}{
		"loss": {&trouble.Loss, f.Loss}, "duplicate": {&trouble.Duplicate, f.Duplicate},
		"reorder": {&trouble.Reorder, f.Reorder}, "dribble": {&trouble.Dribble, f.Dribble},
		"spurious": {&trouble.Spurious, f.Spurious},
	} {
		if w.keeps(part) {
			*set.to = set.share
		}
	}
	w.core.SetTrouble(trouble)
	w.After(f.For, func() { w.core.SetTrouble(simnet.Trouble{}) })
}

// ratesOf are the names of the shares that are not zero.
func (f *Faults) rates() (names []string) {
	for _, r := range []struct {
		name  string
		share float64
	}{{"loss", f.Loss}, {"duplicate", f.Duplicate}, {"reorder", f.Reorder}, {"dribble", f.Dribble}, {"spurious", f.Spurious}} {
		if r.share > 0 {
			names = append(names, r.name)
		}
	}
	return names
}

// writeScript draws what happens when. Each kind has a source of its own, so that
// to ask for more of one changes nothing about the others.
func (w *World) writeScript(f *Faults) []Fault {
	hosts := f.Hosts
	if len(hosts) == 0 {
		hosts = w.hosts
	}
	script := []Fault{}
	kinds := []struct {
		name  string
		every time.Duration
		lasts time.Duration
		make  func(r *rand.Rand, f *Fault)
	}{
		{"partition", f.PartitionEvery, f.PartitionFor, w.partitionFault},
		{"slow", f.SlowEvery, f.SlowFor, w.slowFault},
		{"crash", f.CrashEvery, f.CrashFor, func(r *rand.Rand, f *Fault) {
			h := hosts[r.IntN(len(hosts))]
			f.What, f.begin, f.end = h.Name()+" crashes", h.Crash, func() {
				if !h.Up() {
					h.Restart()
				}
			}
		}},
		{"pause", f.PauseEvery, f.PauseFor, func(r *rand.Rand, f *Fault) {
			h := hosts[r.IntN(len(hosts))]
			f.What, f.begin, f.end = h.Name()+" pauses", h.Pause, h.Resume
		}},
		{"clock", f.ClockEvery, f.ClockFor, func(r *rand.Rand, f *Fault) {
			h, ppm := hosts[r.IntN(len(hosts))], r.IntN(20001)-10000
			off := time.Duration(r.Int64N(int64(time.Minute))) - 30*time.Second
			f.What = fmt.Sprintf("%s has a clock %v off that runs %d ppm fast", h.Name(), off, ppm)
			f.begin, f.end = func() { h.SetClock(off, ppm) }, func() { h.SetClock(0, 0) }
		}},
		{"call", f.CallEvery, 0, func(r *rand.Rand, f *Fault) {
			h := hosts[r.IntN(len(hosts))]
			call := [...]string{"socket", "accept"}[r.IntN(2)]
			err := [...]syscall.Errno{syscall.EMFILE, syscall.ENOMEM}[r.IntN(2)]
			f.What, f.For = fmt.Sprintf("%s of %s fails: %v", call, h.Name(), err), 0
			f.begin = func() {
				if h.Up() { // otherwise it would be the next process that cannot begin
					h.FailCall(call, 1, err)
				}
			}
		}},
	}
	for _, kind := range kinds {
		if kind.every <= 0 {
			continue
		}
		r := w.core.Rand("faults " + kind.name)
		for at := exponential(r, kind.every); at < f.For; at += exponential(r, kind.every) {
			fault := Fault{At: at, For: min(exponential(r, cmp.Or(kind.lasts, f.Lasting)), f.For-at)}
			kind.make(r, &fault)
			if fault.begin != nil {
				script = append(script, fault)
			}
		}
	}
	slices.SortStableFunc(script, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return script
}

func (w *World) partitionFault(r *rand.Rand, f *Fault) {
	a, b := w.twoHosts(r)
	if a == nil {
		return
	}
	link, what := w.Link(a, b), "%s and %s do not hear each other"
	if r.IntN(2) == 0 {
		link, what = w.OneWay(a, b), "%s is not heard by %s"
	}
	f.What = fmt.Sprintf(what, a.Name(), b.Name())
	f.begin, f.end = func() { link.Cut() }, func() { link.Mend() }
}

// slowFault makes a line slow. Of several such faults the slowest counts; when the
// last is over, the line is as it was.
func (w *World) slowFault(r *rand.Rand, f *Fault) {
	a, b := w.twoHosts(r)
	if a == nil {
		return
	}
	link, rate := w.core.Link(a.core, b.core), int64(1000+r.IntN(50_000))
	f.What = fmt.Sprintf("%s sends to %s only %d bytes in a second", a.Name(), b.Name(), rate)
	f.begin = func() {
		if w.slow == nil {
			w.slow = make(map[*simnet.Link][]int64)
		}
		if len(w.slow[link]) == 0 {
			w.slow[link] = []int64{cmp.Or(link.Rate, math.MaxInt64)} // the line's own comes first
		}
		w.slow[link] = append(w.slow[link], rate)
		link.Limit(slices.Min(w.slow[link]))
	}
	f.end = func() {
		rates := w.slow[link]
		mine := slices.Index(rates[1:], rate) + 1
		w.slow[link] = slices.Delete(rates, mine, mine+1)
		least := slices.Min(w.slow[link])
		if least == math.MaxInt64 {
			least = 0
		}
		link.Limit(least)
	}
}

// twoHosts draws two, or none if there are none.
func (w *World) twoHosts(r *rand.Rand) (a, b *Host) {
	if len(w.hosts) < 2 {
		return nil, nil
	}
	i := r.IntN(len(w.hosts))
	return w.hosts[i], w.hosts[(i+1+r.IntN(len(w.hosts)-1))%len(w.hosts)]
}

func exponential(r *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(r.ExpFloat64()*float64(mean)) + 1
}
