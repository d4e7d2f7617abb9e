package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Search looks for a seed with which a world fails. Explore does it in a test; a
// Search is for a program, and for a test that wants to find a failure. The zero
// Search tries a thousand seeds.
type Search struct {
	// First is the first seed that is tried.
	First uint64

	// Runs is how many are tried. Zero means 1,000.
	Runs int

	// Only are the parts to which the story of each run is cut, as
	// Failure.Parts tells them. Nil leaves it whole.
	Only []string

	// Parallel is how many worlds run at the same time. Zero means one for each
	// processor (GOMAXPROCS). Setup is then called on several goroutines, and
	// worlds must not share variables; 1 tries one seed after the other. The
	// failure that is found is the same either way: that of the lowest seed.
	Parallel int

	// Each is called after each run, those of shrinking too. Calls come one at a
	// time, but in no particular order if worlds run in parallel. Nil does without.
	Each func(w *World)
}

// ErrDiverges says that two runs with one seed were not the same: the program
// depends on something besides its seed.
var ErrDiverges = errors.New("sim: two runs with one seed differ; the program depends on something besides it")

// Failure is a run that has failed.
type Failure struct {
	World *World // as it was when it had ended
	Err   error
	Runs  int // how many seeds were tried to find it
}

// Find runs setup's world with many seeds, several at a time, and returns the failure
// of the lowest seed, shrunk to the shortest story that was found: without the faults that it
// does not need, and with the least of every Amount. It returns nil if there is
// none, or if ctx ends before it has found one. As in Explore, some seeds are run
// twice and compared.
func (s Search) Find(ctx context.Context, setup func(w *World)) *Failure {
	parallel := func() int { return cmp.Or(s.Parallel, runtime.GOMAXPROCS(0)) }
	return s.find(ctx, func(w *World) *Failure { return play(w, setup) }, parallel, runtime.Goexit)
}

// player runs a world of a seed, cut to some parts. The Failure's Err is nil if it
// does not fail.
type player func(w *World) *Failure

func play(w *World, setup func(w *World)) *Failure {
	setup(w)
	return &Failure{World: w, Err: w.Run()}
}

// find tries seeds as play does. The first few are tried alone; then as many at a
// time as parallel says, which is asked when it is known how those went.
func (s Search) find(ctx context.Context, play player, parallel func() int, exit func()) *Failure {
	// A world is small and leaves much garbage: with nothing else on the heap, the
	// collector would run for nearly every one. These bytes are never touched, and
	// so take no memory.
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
		w.only, w.size = only, size(i, n)
		return w
	}
	only := partsOf(s.Only)
	try := func(i int) *Failure {
		w := world(i, only)
		if i < twice {
			w.core.Record(nil)
		}
		f := run(w)
		wrong := f.World.unknownParts()
		switch {
		case wrong != nil:
			f.Err = fmt.Errorf("%w: %s", ErrUnknownPart, strings.Join(wrong, ", "))
			return f
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
	if f == nil || errors.Is(f.Err, ErrUnknownPart) || errors.Is(f.Err, ErrDiverges) {
		return f
	}
	runs := f.Runs
	f = f.shrink(func(only parts) *Failure { return run(world(runs-1, only)) })
	f.Runs = runs
	return f
}

// differs compares a run with another of the same seed; nil if they are the same.
func (f *Failure) differs(again *Failure) *Failure {
	if again.Err == nil && again.World.Hash() == f.World.Hash() && again.World.core.Journal().Difference() == nil {
		return nil
	}
	again.Err = errors.Join(ErrDiverges, errors.New(divergence(f.World, again.World)), again.Err)
	return again
}

// ErrUnknownPart says that a failure is to be run again with parts that the program
// does not have: a list that was not copied whole, or is of another program.
var ErrUnknownPart = errors.New("sim: no such fault or amount")

// unknownParts are those asked for that the world, which has run, knows nothing of.
func (w *World) unknownParts() (wrong []string) {
	for part := range w.only {
		name, value, isAmount := strings.Cut(part, "=")
		number, err := strconv.Atoi(cmp.Or(value, name))
		known := false
		switch {
		case isAmount:
			known = err == nil && slices.ContainsFunc(w.amounts, func(a amount) bool { return a.name == name })
		case err == nil:
			known = number >= 0 && number < len(w.script)
		default:
			known = slices.Contains(rates, part) || part == "none"
		}
		if !known {
			wrong = append(wrong, strconv.Quote(part))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// rates are the faults that have a share in place of a time.
var rates = []string{"loss", "duplicate", "reorder", "dribble", "spurious"}

// size is how large the i-th of n worlds is, as a share of its amounts. The first
// ones are small: what fails there is soon told.
func size(i, n int) float64 {
	if growing := n / 10; i < growing {
		return float64(i+1) / float64(growing)
	}
	return 1
}

// twice is how many seeds are run twice.
const twice = 3

// parts are what a story is cut to: the faults that are to come, by number or
// name, and amounts, as "name=3". Nil is everything.
type parts map[string]bool

func partsOf(list []string) parts {
	if list == nil {
		return nil
	}
	set := make(parts)
	for _, part := range list {
		set[part] = true
	}
	return set
}

// cutTo is the parts that are left, which may be none.
func cutTo(faults, amounts []string) parts {
	return partsOf(append(append([]string{}, faults...), amounts...))
}

// amount is what an amount is cut to; most if it is not.
func (p parts) amount(name string, most int) int {
	for part := range p {
		if value, ok := strings.CutPrefix(part, name+"="); ok {
			if n, err := strconv.Atoi(value); err == nil && n >= 1 && n <= most {
				return n
			}
		}
	}
	return most
}

// amount is one that setup has asked for.
type amount struct {
	name string
	n    int
}

func (a amount) String() string { return a.name + "=" + strconv.Itoa(a.n) }

// Amount is most, or less, but at least 1: how many clients there are, how often
// each one asks. It is less in the first worlds of a search, and when the story of
// a failure is to be as short as possible. A name stands for one amount in a
// world: who asks again is told the same. It is for setup.
func (w *World) Amount(name string, most int) int {
	for _, a := range w.amounts {
		if a.name == name {
			return a.n
		}
	}
	a := amount{name, most}
	if w.size < 1 {
		a.n = max(1, int(w.size*float64(most)))
	}
	a.n = w.only.amount(name, a.n)
	w.amounts = append(w.amounts, a)
	return a.n
}

// Parts are what the failure needs: the numbers of scripted faults, the names of
// others, and amounts.
func (f *Failure) Parts() []string {
	return slices.Concat(f.faults(), f.amounts())
}

func (f *Failure) amounts() (names []string) {
	for _, a := range f.World.amounts {
		names = append(names, a.String())
	}
	return names
}

func (f *Failure) faults() (names []string) {
	w := f.World
	if w.faults == nil {
		return nil
	}
	for i := range w.script {
		names = append(names, strconv.Itoa(i))
	}
	names = append(names, w.faults.rates()...)
	return slices.DeleteFunc(names, func(part string) bool { return !w.keeps(part) })
}

// shrink makes the story shorter for as long as it ends badly: less of everything,
// then without faults, many at a time and then one by one. It starts over until
// nothing more can be left out: fewer faults may do with less, and a smaller world
// with other faults.
func (f *Failure) shrink(again func(only parts) *Failure) *Failure {
	for {
		before := f.Parts()
		if len(before) == 0 {
			return f
		}
		f = f.lessen(again).omit(again)
		if slices.Equal(f.Parts(), before) {
			return f
		}
	}
}

// lessen looks for the smallest amounts that do, from below: a small world is soon
// run.
func (f *Failure) lessen(again func(only parts) *Failure) *Failure {
	for _, a := range f.World.amounts {
		enough, tooFew := a.n, 0
		for tooFew+1 < enough {
			n := max(1, 2*tooFew)
			if n >= enough {
				n = (tooFew + enough) / 2
			}
			if g := again(cutTo(f.faults(), f.amountsWith(amount{a.name, n}))); g.Err != nil {
				f, enough = g, n
			} else {
				tooFew = n
			}
		}
	}
	return f
}

// amountsWith are the amounts, with another one in place of that of its name.
func (f *Failure) amountsWith(other amount) []string {
	names := []string{other.String()}
	for _, a := range f.World.amounts {
		if a.name != other.name {
			names = append(names, a.String())
		}
	}
	return names
}

// omit leaves faults out.
func (f *Failure) omit(again func(only parts) *Failure) *Failure {
	faults := f.faults()
	for size := len(faults); size > 0 && len(faults) > 0; size /= 2 {
		for from := 0; from < len(faults); {
			left := slices.Concat(faults[:from], faults[min(from+size, len(faults)):])
			if g := again(cutTo(left, f.amounts())); g.Err != nil {
				f, faults = g, left
			} else {
				from += size
			}
		}
	}
	return f
}
