package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/simkernel"
)

// Faults configures random faults, drawn from the seed. The zero value has none. To
// inject a fault at a certain time, use World.After instead.
type Faults struct {
	// For is how long faults occur, from the start of the run. Afterwards every
	// link is up and every host runs, so a program can be expected to make
	// progress. Zero means a minute.
	For time.Duration

	// Loss, Duplicate, Reorder and Dribble are the shares of datagrams and
	// segments affected on every link between hosts, as LinkOptions has them under
	// the same names.
	Loss, Duplicate, Reorder, Dribble float64

	// Spurious is the share of waits that return early without any event.
	Spurious float64

	// The Every fields are the mean intervals between faults of one kind. Zero
	// means never. A partition separates two hosts, in one direction or both. A
	// slow fault limits the bandwidth from one host to another. A host crashes
	// and is restarted, is paused, or gets a wrong clock. A call fails for lack
	// of descriptors or memory. A run that would have more than 100,000 such
	// faults fails at once.
	PartitionEvery, SlowEvery, CrashEvery, PauseEvery, ClockEvery, CallEvery time.Duration

	// Lasting is the mean duration of a fault. Zero means a tenth of For. The
	// other For fields are the mean durations of one kind each; zero means
	// Lasting. A failing call has no duration.
	Lasting                                             time.Duration
	PartitionFor, SlowFor, CrashFor, PauseFor, ClockFor time.Duration

	// Hosts are the hosts that crash, pause, and get wrong clocks and failing
	// calls. None means all.
	Hosts []*Host
}

// withDefaults returns f with the documented values in place of zeros.
func (f Faults) withDefaults() Faults {
	f.For = cmp.Or(f.For, time.Minute)
	f.Lasting = cmp.Or(f.Lasting, f.For/10)
	return f
}

// fault is one scheduled fault.
type fault struct {
	at, lasts time.Duration
	what      string
	begin     func()
	end       func()
}

func (f fault) String() string {
	if f.lasts == 0 {
		return fmt.Sprintf("%12v  %s", f.at, f.what)
	}
	return fmt.Sprintf("%12v  %s, for %v", f.at, f.what, f.lasts)
}

// scheduled returns the faults that were drawn from the seed, ordered by time, without
// those that shrinking left out. It is empty before the world has run.
func (w *World) scheduled() []fault {
	var kept []fault
	for i, f := range w.script {
		if w.keeps(fmt.Sprint(i)) {
			kept = append(kept, f)
		}
	}
	return kept
}

// keeps reports whether a part of the faults is in force.
func (w *World) keeps(part string) bool { return w.only == nil || w.only[part] }

// beginFaults draws the script and schedules its faults.
func (w *World) beginFaults() {
	f := w.Faults.withDefaults()
	script, err := w.writeScript(&f)
	if err != nil {
		w.failure = err
		return
	}
	w.script = script
	for i, fault := range w.script {
		if w.keeps(fmt.Sprint(i)) {
			w.After(fault.at, fault.begin)
			if fault.end != nil {
				w.After(fault.at+fault.lasts, fault.end)
			}
		}
	}
	if len(f.rates()) == 0 {
		return
	}
	var rates simkernel.FaultRates
	for _, kind := range rateKinds {
		if w.keeps(kind.name) {
			*kind.to(&rates) = kind.share(&f)
		}
	}
	w.core.SetFaultRates(rates)
	w.After(f.For, func() { w.core.SetFaultRates(simkernel.FaultRates{}) })
}

// rateKinds are the faults that have a share instead of times.
var rateKinds = []struct {
	name  string
	share func(*Faults) float64
	to    func(*simkernel.FaultRates) *float64
}{
	{"loss", func(f *Faults) float64 { return f.Loss }, func(r *simkernel.FaultRates) *float64 { return &r.Loss }},
	{"duplicate", func(f *Faults) float64 { return f.Duplicate }, func(r *simkernel.FaultRates) *float64 { return &r.Duplicate }},
	{"reorder", func(f *Faults) float64 { return f.Reorder }, func(r *simkernel.FaultRates) *float64 { return &r.Reorder }},
	{"dribble", func(f *Faults) float64 { return f.Dribble }, func(r *simkernel.FaultRates) *float64 { return &r.Dribble }},
	{"spurious", func(f *Faults) float64 { return f.Spurious }, func(r *simkernel.FaultRates) *float64 { return &r.Spurious }},
}

// rates returns the names of the shares that are not zero.
func (f *Faults) rates() (names []string) {
	for _, kind := range rateKinds {
		if kind.share(f) > 0 {
			names = append(names, kind.name)
		}
	}
	return names
}

// isRate reports whether a part is the name of a fault that has a share.
func isRate(part string) bool {
	for _, kind := range rateKinds {
		if kind.name == part {
			return true
		}
	}
	return false
}

// maxFaults is how many faults may be drawn for a script. They are drawn in advance, so
// more would take much memory and time.
const maxFaults = 100_000

// writeScript draws the scheduled faults. Each kind has its own random source, so
// that more faults of one kind do not change those of the others. It fails if they are
// too many.
func (w *World) writeScript(f *Faults) ([]fault, error) {
	hosts := f.Hosts
	if len(hosts) == 0 {
		hosts = w.hosts
	}
	script := []fault{}
	kinds := []struct {
		name  string
		every time.Duration
		lasts time.Duration
		make  func(r *rand.Rand, f *fault)
	}{
		{"partition", f.PartitionEvery, f.PartitionFor, w.partitionFault},
		{"slow", f.SlowEvery, f.SlowFor, w.slowFault},
		{"crash", f.CrashEvery, f.CrashFor, func(r *rand.Rand, f *fault) {
			h := hosts[r.IntN(len(hosts))]
			f.what, f.begin, f.end = h.Name()+" crashes", h.Crash, func() {
				if !h.Up() {
					h.Restart()
				}
			}
		}},
		{"pause", f.PauseEvery, f.PauseFor, func(r *rand.Rand, f *fault) {
			h := hosts[r.IntN(len(hosts))]
			f.what, f.begin, f.end = h.Name()+" pauses", h.Pause, h.Resume
		}},
		{"clock", f.ClockEvery, f.ClockFor, func(r *rand.Rand, f *fault) {
			h, ppm := hosts[r.IntN(len(hosts))], r.IntN(20001)-10000
			off := time.Duration(r.Int64N(int64(time.Minute))) - 30*time.Second
			f.what = fmt.Sprintf("%s has a clock %v off that runs %d ppm fast", h.Name(), off, ppm)
			f.begin, f.end = func() { h.SetClock(off, ppm) }, func() { h.SetClock(0, 0) }
		}},
		{"call", f.CallEvery, 0, func(r *rand.Rand, f *fault) {
			h := hosts[r.IntN(len(hosts))]
			call := [...]string{"socket", "accept"}[r.IntN(2)]
			err := [...]syscall.Errno{syscall.EMFILE, syscall.ENOMEM}[r.IntN(2)]
			f.what, f.lasts = fmt.Sprintf("%s of %s fails: %v", call, h.Name(), err), 0
			f.begin = func() {
				if h.Up() { // otherwise the next process could not start
					h.FailCall(call, 1, err)
				}
			}
		}},
	}
	drawn := 0
	for _, kind := range kinds {
		if kind.every <= 0 {
			continue
		}
		r := w.core.Rand("faults " + kind.name)
		for at := exponential(r, kind.every); at < f.For; at += exponential(r, kind.every) {
			if drawn++; drawn > maxFaults {
				return nil, fmt.Errorf("sim: Faults: more than %d faults in %v: one of kind %s every %v", maxFaults, f.For, kind.name, kind.every)
			}
			next := fault{at: at, lasts: min(exponential(r, cmp.Or(kind.lasts, f.Lasting)), f.For-at)}
			kind.make(r, &next)
			if next.begin != nil {
				script = append(script, next)
			}
		}
	}
	slices.SortStableFunc(script, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	return script, nil
}

func (w *World) partitionFault(r *rand.Rand, f *fault) {
	a, b := w.twoHosts(r)
	if a == nil {
		return
	}
	link, what := w.Link(a, b), "%s and %s are partitioned"
	if r.IntN(2) == 0 {
		link, what = w.OneWay(a, b), "%s cannot reach %s"
	}
	f.what = fmt.Sprintf(what, a.Name(), b.Name())
	f.begin, f.end = func() { link.Cut() }, func() { link.Mend() }
}

// slowFault limits the bandwidth of a link. If several such faults overlap, the
// lowest limit counts. When the last one ends, the link has its own rate again.
func (w *World) slowFault(r *rand.Rand, f *fault) {
	a, b := w.twoHosts(r)
	if a == nil {
		return
	}
	link, rate := w.core.Link(a.core, b.core), int64(1000+r.IntN(50_000))
	f.what = fmt.Sprintf("%s sends at most %d bytes per second to %s", a.Name(), rate, b.Name())
	f.begin = func() {
		if w.slow == nil {
			w.slow = make(map[*simkernel.Link][]int64)
		}
		if len(w.slow[link]) == 0 {
			w.slow[link] = []int64{cmp.Or(link.Rate, math.MaxInt64)} // the link's own rate comes first
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

// twoHosts draws two different hosts. It returns nil if the world has fewer than two.
func (w *World) twoHosts(r *rand.Rand) (a, b *Host) {
	if len(w.hosts) < 2 {
		return nil, nil
	}
	i := r.IntN(len(w.hosts))
	return w.hosts[i], w.hosts[(i+1+r.IntN(len(w.hosts)-1))%len(w.hosts)]
}

// exponential draws a positive duration with the given mean.
func exponential(r *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(r.ExpFloat64()*float64(mean)) + 1
}
