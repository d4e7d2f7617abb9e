package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/simnet"
)

// World is hosts, the network between them, and time. NewWorld makes one; hosts,
// programs and faults are added; Run runs everything.
//
// It is for one goroutine: that of the test, and while Run runs, the functions
// given to After, Always and Eventually, and the programs. A program must not run
// the world that it runs in.
type World struct {
	core     *simnet.World
	hosts    []*Host
	programs []*program // in the order in which they were added
	live     int        // processes that have not ended
	pending  int        // programs of Go that have not ended, also crashed ones
	failure  error      // why the world is to end
	driving  bool
	checks   []check
	faults   *Faults
	script   []Fault                  // made of them
	slow     map[*simnet.Link][]int64 // how slow lines are by their faults; the first is their own
	only     parts                    // what the story is cut to; nil for nothing
	amounts  []amount
	size     float64 // the share of its amounts that it has
}

// NewWorld makes a world in which every choice follows from the seed.
func NewWorld(seed uint64) *World { return &World{core: simnet.New(seed), size: 1} }

// Seed is the seed that the world was made with.
func (w *World) Seed() uint64 { return w.core.Seed() }

// Now is the time that has passed in the world.
func (w *World) Now() time.Duration { return w.core.Now() }

// LeftOpen is how many descriptors programs have left open when they ended, those
// not counted that crashed. Connections of packages stream and transport are closed
// with their loop: it is descriptors of their own that programs forget.
func (w *World) LeftOpen() int { return w.core.LeftOpen() }

// After calls fn when d has passed, counted from now, while no program runs. It is
// how faults are scripted.
func (w *World) After(d time.Duration, fn func()) { w.core.After(d, fn) }

// Run lets everything happen until the programs of Go have ended, and what is to
// happen eventually has happened, and then ends the world: see Close. It fails with the first error of any program, as a
// *HostError; with ErrDeadlock, and the tasks of every host, if nothing can happen
// any more; or with what Always and Eventually have found.
func (w *World) Run() error {
	err := w.drive(func() bool { return w.pending == 0 && !w.expects() })
	return errors.Join(err, w.Close())
}

// RunFor lets everything happen for some time, and leaves it as it is then. It
// fails like Run.
func (w *World) RunFor(d time.Duration) error {
	over := false
	w.After(d, func() { over = true })
	return w.drive(func() bool { return over })
}

// ErrTimeout says that what was waited for did not happen in time.
var ErrTimeout = errors.New("sim: it did not happen in time")

// RunUntil lets everything happen until cond is true. It fails like Run, and with
// ErrTimeout if that takes longer than within.
func (w *World) RunUntil(cond func() bool, within time.Duration) error {
	over := false
	w.After(within, func() { over = true })
	if err := w.drive(func() bool { return over || cond() }); err != nil {
		return err
	}
	if !cond() {
		return fmt.Errorf("%w (%v)", ErrTimeout, within)
	}
	return nil
}

// drive drives the world until done, or until something has failed.
func (w *World) drive(done func() bool) error {
	if w.driving {
		panic("sim: a World was run by what runs in it")
	}
	mustBeUnlocked()
	w.driving = true
	defer func() { w.driving = false }()
	defer w.watch().end()
	w.beginFaults()
	w.core.SetStep(nil)
	if len(w.checks) > 0 {
		w.core.SetStep(w.check)
	}
	err := w.core.Drive(func() bool { return w.failure != nil || done() })
	if err == nil {
		err = w.core.Reported()
	}
	switch {
	case errors.Is(err, ErrBlocked):
		return errors.Join(err, w.failure)
	case w.failure != nil:
		return w.failure
	case errors.Is(err, ErrDeadlock) && w.onlyCrashed():
		return nil
	case errors.Is(err, ErrDeadlock):
		return w.deadlock()
	}
	return err
}

// watch looks for programs that block, from outside the world's bubble. If there is
// one, inBubble has begun to.
func (w *World) watch() *stall {
	if w.core.InBubble() {
		return nil
	}
	return watchStall(w.core)
}

// mustBeUnlocked says what the runtime would end the process for.
func mustBeUnlocked() {
	if *goid.LockWord(goid.Current()) != 0 {
		panic("sim: a World cannot be run on a locked thread; its hosts are on goroutines of their own")
	}
}

// onlyCrashed tells whether whoever is still waited for has crashed for good.
func (w *World) onlyCrashed() bool {
	for _, p := range w.programs {
		if p.waitedFor && p.state == programRuns {
			return false
		}
	}
	return true
}

// deadlock has every program end with the news, and collects what they say: each
// has a picture of its tasks.
func (w *World) deadlock() error {
	w.core.SetStep(nil)
	w.core.Fail(ErrDeadlock)
	limit := false
	w.After(endGrace, func() { limit = true })
	if err := w.core.Drive(func() bool { return limit || w.live == 0 }); err != nil {
		return err
	}
	var all []error
	for _, p := range w.programs {
		if p.err != nil {
			all = append(all, &HostError{p.host.Name(), p.err})
		}
	}
	w.failure = errors.Join(all...)
	if w.failure == nil {
		w.failure = ErrDeadlock
	}
	return w.failure
}

// endGrace is how long programs may take to end, in the world's time, before they
// are ended by force.
const endGrace = 10 * time.Second

// Close ends what still runs: programs of Go and Serve are cancelled, and may take
// ten seconds of the world's time to clean up; those of Exec, and who takes
// longer, are killed as if their host had crashed. Run does it by itself. Closing
// again does nothing.
func (w *World) Close() error {
	mustBeUnlocked()
	defer w.watch().end()
	before := w.failure
	w.core.SetStep(nil)
	limit := false
	w.After(endGrace, func() { limit = true })
	for _, p := range w.programs {
		p.host.core.Resume()
		p.stop()
	}
	ended := func() bool { return w.live == 0 }
	if err := w.core.Drive(func() bool { return limit || ended() }); err != nil {
		return err
	}
	var late []error
	for _, p := range w.programs {
		late = append(late, p.force())
	}
	if err := w.core.Drive(ended); err != nil {
		late = append(late, err)
	}
	if before == nil && w.failure != nil {
		late = append(late, w.failure)
	}
	return errors.Join(late...)
}

// errEnded is why programs are stopped when the world ends.
var errEnded = errors.New("sim: the world has ended")

// HostError is an error of a program, with the host that it ran on.
type HostError struct {
	Host string
	Err  error
}

func (e *HostError) Error() string { return fmt.Sprintf("host %s: %v", e.Host, e.Err) }

// Unwrap returns the program's error.
func (e *HostError) Unwrap() error { return e.Err }

// check is something that must hold.
type check struct {
	name     string
	holds    func() error
	cond     func() bool   // must become true …
	deadline time.Duration // … until then
}

// Always has an invariant checked whenever something has happened: between any
// two steps of programs and any two arrivals. Its first error ends the run. It is
// for reading, without waiting, what programs share with the test.
func (w *World) Always(name string, holds func() error) {
	w.checks = append(w.checks, check{name: name, holds: holds})
}

// Eventually has the run fail, with ErrTimeout, unless cond is true at some time
// within the given time from now. Run waits for it, also when every program has
// ended.
func (w *World) Eventually(name string, within time.Duration, cond func() bool) {
	w.checks = append(w.checks, check{name: name, cond: cond, deadline: w.Now() + within})
	w.After(within+1, func() {})
}

// expects tells whether something is still to happen eventually.
func (w *World) expects() bool {
	return slices.ContainsFunc(w.checks, func(c check) bool { return c.cond != nil })
}

// check checks everything that must hold.
func (w *World) check() error {
	for i := 0; i < len(w.checks); i++ {
		c := &w.checks[i]
		switch {
		case c.holds != nil:
			if err := c.holds(); err != nil {
				w.failure = fmt.Errorf("sim: %s does not hold at %v: %w", c.name, w.Now(), err)
				return w.failure
			}
		case c.cond():
			w.checks = append(w.checks[:i], w.checks[i+1:]...)
			i--
		case w.Now() > c.deadline:
			w.failure = fmt.Errorf("%w: %s, until %v", ErrTimeout, c.name, c.deadline)
			return w.failure
		}
	}
	return nil
}
