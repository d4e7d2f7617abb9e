package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Search looks for a seed that makes a world fail. In a test, use Explore. A Search
// is for programs other than tests, and for tests that expect a failure. The zero
// Search tries a thousand seeds.
type Search struct {
	// First is the first seed to try.
	First uint64

	// Runs is the number of seeds to try. Zero means 1,000.
	Runs int

	// Only limits each run to the given faults and amounts, in the form that
	// Failure.Parts returns. Nil means no limit.
	Only []string

	// Parallel is how many worlds run at the same time. Zero means one for each
	// processor (GOMAXPROCS). If it is not 1, setup is called on several
	// goroutines, and worlds must not share variables. Find returns the same
	// failure either way: that of the lowest seed.
	Parallel int

	// Shortest is how many more seeds to try after the first failure, to return the
	// one with the fewest events. Zero means none: the lowest seed that fails need
	// not have the shortest run.
	Shortest int

	// Each, if not nil, is called after each run, including those made to shrink
	// a failure. Calls do not overlap, but have no particular order if worlds run
	// in parallel.
	Each func(w *World)
}

// ErrDiverges reports that two runs with the same seed differed: the program depends
// on something besides its seed.
var ErrDiverges = errors.New("sim: two runs with the same seed differ; the program depends on something besides the seed")

// Failure is a run that has failed.
type Failure struct {
	World *World // its state when the run ended
	Err   error
	Runs  int // how many seeds were tried to find it

	title string                                                         // for the page
	again func(seed uint64, only parts, prepare func(w *World)) *Failure // runs a world of the same search; nil if there was none
}

// Find runs setup's world with many seeds, several at a time, and returns the failure
// of the lowest seed. The failure is shrunk: faults that it does not need are left
// out, and every Amount is as low as possible. Find returns nil if no seed fails, or
// if ctx ends first. If ctx ends while a failure is shrunk, Find returns the smallest
// failure so far. As in Explore, some seeds are run twice and compared.
func (s Search) Find(ctx context.Context, setup func(w *World)) *Failure {
	parallel := func() int { return cmp.Or(s.Parallel, runtime.GOMAXPROCS(0)) }
	return s.find(ctx, func(w *World) *Failure { return play(w, setup) }, parallel, runtime.Goexit)
}

// player runs a world. The Failure's Err is nil if the run does not fail.
type player func(w *World) *Failure

func play(w *World, setup func(w *World)) *Failure {
	setup(w)
	return &Failure{World: w, Err: w.Run()}
}

// find runs seeds with play. It runs the first few one at a time, then calls parallel
// for the number of workers that run the rest: that number may depend on the first
// runs.
func (s Search) find(ctx context.Context, play player, parallel func() int, exit func()) *Failure {
	// A world is small and leaves much garbage: with nothing else on the heap, the
	// collector would run for nearly every one. The ballast raises the heap size at
	// which it runs. It is never touched, so it takes no memory.
	ballast := make([]byte, 64<<20)
	defer runtime.KeepAlive(ballast)
	var mu sync.Mutex
	run := func(w *World) *Failure {
		f := play(w)
		if s.Each != nil {
			mu.Lock()
			defer mu.Unlock()
			s.Each(w)
		}
		return f
	}
	n := s.Runs
	if n == 0 {
		n = 1000
	}
	world := func(i int, only parts) *World {
		w := NewWorld(s.First + uint64(i))
		w.only = only
		return w
	}
	only := partsOf(s.Only)
	try := func(i int) *Failure {
		w := world(i, only)
		if i < twice {
			w.core.Record(nil)
		}
		f := run(w)
		switch f.checkParts(); {
		case f.Err != nil:
			return f
		case i < twice:
			again := world(i, only)
			again.core.Record(w.core.Journal())
			return f.differs(run(again))
		}
		return nil
	}
	alone := min(twice, n)
	f := search(ctx, 0, alone, 1, try, exit)
	if f == nil {
		f = search(ctx, alone, n, parallel(), try, exit)
	}
	if f == nil || ctx.Err() != nil || errors.Is(f.Err, ErrUnknownPart) || errors.Is(f.Err, ErrDiverges) {
		return f
	}
	f = s.smallest(ctx, f, world, run)
	if errors.Is(f.Err, ErrDiverges) {
		return f
	}
	f = s.shorter(ctx, f, n, world, run)
	f.again = func(seed uint64, only parts, prepare func(w *World)) *Failure {
		w := NewWorld(seed)
		w.only, w.prepare = only, prepare
		return play(w)
	}
	return f
}

// differs compares a run with another run of the same seed. It returns nil if they
// are the same.
func (f *Failure) differs(again *Failure) *Failure {
	if again.Err == nil && again.World.Hash() == f.World.Hash() && again.World.core.Journal().Difference() == nil {
		return nil
	}
	again.Err = errors.Join(ErrDiverges, errors.New(divergence(f, again)), again.Err)
	return again
}

// vanishes compares a run that has failed with another run of the same seed. It returns
// nil if that has failed too. The two are not compared further: a block is noticed at no
// particular moment.
func (f *Failure) vanishes(again *Failure) *Failure {
	if again.Err != nil {
		return nil
	}
	again.Err = errors.Join(ErrDiverges, errors.New(divergence(f, again)), f.Err)
	return again
}

// ErrUnknownPart reports that Search.Only or SPINDLE_FAULTS lists parts that the
// program does not have, or an amount above its maximum: the list is incomplete, or
// belongs to another program.
var ErrUnknownPart = errors.New("sim: no such fault or amount")

// checkParts makes the run fail with ErrUnknownPart if it was limited to parts that its
// world does not have.
func (f *Failure) checkParts() {
	if wrong := f.World.unknownParts(); wrong != nil {
		f.Err = fmt.Errorf("%w: %s", ErrUnknownPart, strings.Join(wrong, ", "))
	}
}

// unknownParts returns the parts of w.only that the world does not have. The world
// must have run.
func (w *World) unknownParts() (wrong []string) {
	for part := range w.only { // any order: sorted below
		name, value, isAmount := strings.Cut(part, "=")
		number, err := strconv.Atoi(cmp.Or(value, name))
		known, hint := false, ""
		switch {
		case isAmount:
			i := slices.IndexFunc(w.amounts, func(a amount) bool { return a.name == name })
			known = err == nil && i >= 0 && number >= min(1, w.amounts[i].most) && number <= w.amounts[i].most
			if !known && i >= 0 {
				hint = fmt.Sprintf(" (want 1 to %d)", w.amounts[i].most)
			}
		case err == nil:
			known = number >= 0 && number < len(w.script)
		default:
			known = isRate(part) || part == "none"
		}
		if !known {
			wrong = append(wrong, strconv.Quote(part)+hint)
		}
	}
	slices.Sort(wrong)
	return wrong
}

// share returns how large the amounts of a world are, from 0 to 1. It depends on nothing but
// the seed: a seed means one run, however many seeds a search has. One seed in eight has a
// smaller world, because some bugs show only in those. The seed is mixed, because programs may
// use its lowest bits to vary something else.
func share(seed uint64) float64 {
	mixed := seed * 0x9e3779b97f4a7c15
	if mixed>>61 != 7 {
		return 1
	}
	return float64(mixed>>58&7+1) / 9
}

// twice is the number of seeds that are run twice.
const twice = 3

// parts are what a run is limited to: faults, by number or name, and amounts, as
// "name=3". Nil means no limit.
type parts map[string]bool

func partsOf(names []string) parts {
	if names == nil {
		return nil
	}
	set := make(parts)
	for _, part := range names {
		set[part] = true
	}
	return set
}

// onlyParts returns the parts of the given faults and amounts. It is never nil, which
// would mean no limit.
func onlyParts(faults, amounts []string) parts {
	return partsOf(append(append([]string{}, faults...), amounts...))
}

// amount returns the value that p sets for an amount of at most most.
func (p parts) amount(name string, most int) (n int, ok bool) {
	for _, part := range slices.Sorted(maps.Keys(p)) {
		if value, found := strings.CutPrefix(part, name+"="); found {
			if n, err := strconv.Atoi(value); err == nil && n >= 1 && n <= most {
				return n, true
			}
		}
	}
	return 0, false
}

// amount is a named amount that setup has requested by World.Amount.
type amount struct {
	name string
	n    int
	most int
}

func (a amount) String() string { return a.name + "=" + strconv.Itoa(a.n) }

// Amount returns a number from 1 to most, for example the number of clients or of
// requests. It is most for most seeds. One seed in eight has smaller amounts, and so
// has a failure that is shrunk. Calls with the same name in one world return the same
// number.
// Call it in setup. A name must not contain a comma or an equals sign, because
// Failure.Parts uses them.
func (w *World) Amount(name string, most int) int {
	if strings.ContainsAny(name, ",=") {
		panic(fmt.Sprintf("sim: Amount: name %q contains a comma or an equals sign", name))
	}
	for _, a := range w.amounts {
		if a.name == name {
			return a.n
		}
	}
	a := amount{name, most, most}
	if n, ok := w.only.amount(name, most); ok {
		a.n = n
	} else if share := share(w.Seed()); share < 1 {
		a.n = min(most, max(1, int(share*float64(most))))
	}
	w.amounts = append(w.amounts, a)
	return a.n
}

// Parts returns what the failure needs: the numbers of scheduled faults, the names of
// other faults, and amounts. It is empty but not nil if the failure needs none of them, so
// that a Search with these as Only repeats the run.
func (f *Failure) Parts() []string {
	return append(append([]string{}, f.faults()...), f.amounts()...)
}

func (f *Failure) amounts() (names []string) {
	for _, a := range f.World.amounts {
		names = append(names, a.String())
	}
	return names
}

func (f *Failure) faults() (names []string) {
	w := f.World
	for i := range w.script {
		names = append(names, strconv.Itoa(i))
	}
	names = append(names, w.Faults.rates()...)
	return slices.DeleteFunc(names, func(part string) bool { return !w.keeps(part) })
}

// shrink makes the failure smaller as long as the run still fails. It lowers amounts,
// then leaves out faults, many at a time and then one by one. It repeats this until
// nothing more can go: with fewer faults, smaller amounts may suffice, and a smaller
// world may need other faults. It stops early if ctx ends.
func (f *Failure) shrink(ctx context.Context, again func(only parts) *Failure) *Failure {
	for {
		before := f.Parts()
		if len(before) == 0 {
			return f
		}
		f = f.minimizeAmounts(ctx, again).omit(ctx, again)
		if slices.Equal(f.Parts(), before) || ctx.Err() != nil {
			return f
		}
	}
}

// minimizeAmounts looks for the smallest amounts that still fail. It searches from below,
// because small worlds run quickly.
func (f *Failure) minimizeAmounts(ctx context.Context, again func(only parts) *Failure) *Failure {
	for _, a := range f.World.amounts {
		enough, tooFew := a.n, 0
		for tooFew+1 < enough && ctx.Err() == nil {
			n := max(1, 2*tooFew)
			if n >= enough {
				n = (tooFew + enough) / 2
			}
			if g := again(onlyParts(f.faults(), f.amountsWith(amount{a.name, n, a.most}))); g.Err != nil {
				f, enough = g, n
			} else {
				tooFew = n
			}
		}
	}
	return f
}

// amountsWith returns the amounts, with other in place of the one of the same name.
func (f *Failure) amountsWith(other amount) []string {
	names := []string{other.String()}
	for _, a := range f.World.amounts {
		if a.name != other.name {
			names = append(names, a.String())
		}
	}
	return names
}

// omit leaves out the faults that the failure does not need.
func (f *Failure) omit(ctx context.Context, again func(only parts) *Failure) *Failure {
	faults := f.faults()
	for size := len(faults); size > 0 && len(faults) > 0; size /= 2 {
		for from := 0; from < len(faults) && ctx.Err() == nil; {
			rest := slices.Concat(faults[:from], faults[min(from+size, len(faults)):])
			if g := again(onlyParts(rest, f.amounts())); g.Err != nil {
				f, faults = g, rest
			} else {
				from += size
			}
		}
	}
	return f
}
