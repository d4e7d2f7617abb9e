package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/simkernel"
)

// World is a set of hosts, the network between them, and a clock. Make one with
// NewWorld, add hosts, programs and faults, and call Run.
//
// A World is for one goroutine: that of the test. While Run runs, the programs and
// the functions given to After, Always and Eventually may use it too. A program must
// not run the world that it runs in.
type World struct {
	// The exported fields configure the world. Set them before it first runs.

	// Latency is the latency of links between hosts that have none of their own. Nil
	// means uniform from 0.2 to 1 millisecond.
	Latency Delay

	// WorkTime is how long offloaded work takes, including name lookups. Nil means no
	// time.
	WorkTime Delay

	// Faults are random faults. The zero value has none.
	Faults Faults

	// InspectEvery is the interval of virtual time at which Recording takes snapshots.
	// Zero means never. A long run, or one with very many tasks, doubles it when the
	// recording has a million rows.
	InspectEvery time.Duration

	// KeepData is how many bytes of each message the trace keeps. Zero means 200,
	// and a negative number none.
	KeepData int

	// Format, if not nil, describes messages for people: a request by its name, for
	// example, instead of its bytes. When the trace is read, Format is called for
	// each event with bytes that arrived or were dropped. If it returns "", the trace
	// shows the bytes. On a connection, Event.Data has bytes that arrived together,
	// which may be less or more than one message.
	Format func(e Event) string

	core     *simkernel.World
	hosts    []*Host
	programs []*program // in the order in which they were added
	live     int        // processes that have not ended
	pending  int        // programs of Go and Exec that have not ended, including crashed ones
	failure  error      // ends the run
	driving  bool
	closing  bool // Close runs
	checks   []check
	begun    bool                        // the configuration is applied
	script   []fault                     // drawn from Faults
	slow     map[*simkernel.Link][]int64 // rates of links with slow faults; the first is the link's own
	only     parts                       // the parts that the run is limited to; nil for no limit
	amounts  []amount
	recorder recorder
	prepare  func(w *World) // changes the configuration that setup has made; may be nil
}

// NewWorld makes a world in which the seed determines every choice.
func NewWorld(seed uint64) *World {
	return &World{core: simkernel.New(seed), recorder: recorder{core: inspect.Internal()}}
}

// Seed returns the seed that the world was made with.
func (w *World) Seed() uint64 { return w.core.Seed() }

// Now returns the time that has passed in the world.
func (w *World) Now() time.Duration { return w.core.Now() }

// After calls fn when d has passed from now, while no program runs. Tests use it to
// inject faults at certain times.
func (w *World) After(d time.Duration, fn func()) { w.core.After(d, fn) }

// Run runs the world until the programs of Go and Exec have returned and every
// condition of Eventually has been met. Then it closes the world: see Close. Run
// fails with the first error of any program, which it prefixes with the host. It fails with
// ErrDeadlock and the tasks of every host if nothing can happen any more, and with
// the error of a check of Always or Eventually.
func (w *World) Run() error {
	err := w.drive(func() bool { return w.pending == 0 && !w.expects() })
	if err == nil {
		w.recorder.end()
	}
	return errors.Join(err, w.Close())
}

// RunFor runs the world for d and leaves its programs running. It fails like Run.
func (w *World) RunFor(d time.Duration) error {
	over := false
	w.After(d, func() { over = true })
	return w.drive(func() bool { return over })
}

var errTimeout = errors.New("sim: condition not met in time")

// drive drives the world until done returns true or something has failed.
func (w *World) drive(done func() bool) error {
	if w.driving {
		panic("sim: a World is run by one of its own programs or callbacks; run it from the test")
	}
	mustBeUnlocked()
	w.driving = true
	defer func() { w.driving = false }()
	defer w.watch().end()
	w.begin()
	w.core.SetStep(nil)
	if len(w.checks) > 0 {
		w.core.SetStep(w.check)
	}
	err := w.core.Drive(func() bool { return w.failure != nil || done() })
	if err == nil {
		err = w.core.Reported()
	}
	if w.failure != nil || errors.Is(err, ErrDeadlock) { // otherwise a program may still be running
		w.recorder.end()
	}
	switch {
	case errors.Is(err, simkernel.ErrBlocked):
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

// begin applies the configuration when the world first runs.
func (w *World) begin() {
	if w.begun {
		return
	}
	w.begun = true
	if w.prepare != nil {
		w.prepare(w)
	}
	if w.Latency != nil {
		w.core.SetDelay(simkernel.Delay(w.Latency))
	}
	if w.WorkTime != nil {
		w.core.SetWorkTime(simkernel.Delay(w.WorkTime))
	}
	if w.KeepData != 0 {
		w.core.KeepData(w.KeepData)
	}
	w.recorder.every = w.InspectEvery
	w.observe()
	w.beginFaults()
}

// watch starts to watch for programs that block. In a bubble it returns nil, because
// inBubble already watches from outside.
func (w *World) watch() *stall {
	if w.core.InBubble() {
		return nil
	}
	return watchStall(w.core)
}

// mustBeUnlocked panics if the calling goroutine is locked to its thread. Without
// it, the runtime would end the process at the first switch to a host.
func mustBeUnlocked() {
	if *goid.LockWord(goid.Current()) != 0 {
		panic("sim: a World cannot run on a locked thread, because its hosts have their own goroutines; call runtime.UnlockOSThread first")
	}
}

// onlyCrashed reports whether every program that the world still waits for has
// crashed.
func (w *World) onlyCrashed() bool {
	for _, p := range w.programs {
		if p.waitedFor && p.state == programRuns {
			return false
		}
	}
	return true
}

// deadlock fails every program with ErrDeadlock and joins their errors: each has the
// tree of its tasks.
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
			all = append(all, ofHost(p.host, p.err))
		}
	}
	w.failure = errors.Join(all...)
	if w.failure == nil {
		w.failure = ErrDeadlock
	}
	return w.failure
}

// endGrace is how long cancelled programs may take to return, in the world's time,
// before they are killed. It is more than the drain of a web.Server and the grace of a run
// together.
const endGrace = time.Minute

// Close ends the programs that still run. Programs of Go and Serve are cancelled and
// may take a minute of the world's time to clean up. Programs that take longer,
// and those of Exec, are killed as if their host had crashed. Meanwhile no program
// starts, not even on a host that boots, and no host pauses. Run calls Close itself.
// Closing a world again does nothing.
func (w *World) Close() error {
	mustBeUnlocked()
	w.closing = true
	defer func() { w.closing = false }()
	defer w.watch().end()
	before := w.failure
	w.core.SetStep(nil)
	w.core.SetObserver(nil)
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

// errEnded is the cause with which programs are cancelled when the world ends.
var errEnded = errors.New("sim: the world has ended")

// ofHost adds to an error of a program the host that it ran on.
func ofHost(h *Host, err error) error { return fmt.Errorf("host %s: %w", h.Name(), err) }

// check is a check of Always, with holds, or of Eventually, with cond.
type check struct {
	name     string
	holds    func() error
	cond     func() bool // must become true before deadline
	deadline time.Duration
}

// Always adds an invariant. The world calls holds after every step of a program and
// every arrival. The first error ends the run. The function may read state that
// programs share with the test, and must not wait.
func (w *World) Always(name string, holds func() error) {
	w.checks = append(w.checks, check{name: name, holds: holds})
}

// Eventually makes the run fail unless cond becomes true within the
// given time from now. Run waits for it, even after every program has returned.
func (w *World) Eventually(name string, within time.Duration, cond func() bool) {
	w.checks = append(w.checks, check{name: name, cond: cond, deadline: w.Now() + within})
	w.After(within+1, func() {})
}

// expects reports whether a condition of Eventually has not been met yet.
func (w *World) expects() bool {
	return slices.ContainsFunc(w.checks, func(c check) bool { return c.cond != nil })
}

// check evaluates all checks and returns the first failure.
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
			w.failure = fmt.Errorf("%w: %s, deadline %v", errTimeout, c.name, c.deadline)
			return w.failure
		}
	}
	return nil
}
