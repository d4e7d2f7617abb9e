// Package simkernel is a simulated operating system: a network of hosts under one
// virtual clock. Each host has processes, and the kernel of a process implements the
// contract of package kernel. Package sim is its interface for users.
//
// # One goroutine at a time
//
// A World is a queue of events (a segment arrives, a timer is due) and a set of
// processes. A process is a coroutine. It runs until it calls Wait of its kernel and
// nothing is ready; then the driver of the world continues. So exactly one goroutine
// runs at a time and needs no lock. Methods that the contract allows on any goroutine
// (Wake, Mono, Wall, Uint64, Start, LookupNetIP) are guarded, and say so.
//
// A process without a program has no driver: its Wait drives the world itself. Tests
// of one host and the conformance suite use it that way.
//
// # Time
//
// Time passes only when every process waits: it jumps to the next event. Between two
// events no time passes.
//
// # The seed
//
// Every choice is drawn from the seed: which of several processes runs first, the
// order of its events, how long a segment travels, and what is lost. Each link, each
// process and the order of running have their own random source, so that a change to
// one does not affect the others.
package simkernel

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/kernel"
)

var (
	// ErrDeadlock reports that every process waits and nothing can wake one.
	ErrDeadlock = errors.New("sim: deadlock: every task waits, and nothing can wake one")
	// ErrStandstill reports that processes keep running and no time passes.
	ErrStandstill = errors.New("sim: no time passes: a task runs again and again and never waits for anything")
	// ErrStray reports that a goroutine that does not belong to the simulation takes
	// part in the run.
	ErrStray = errors.New("sim: a goroutine that the program has started takes part in the run, so the seed does not determine it; use tasks, or spindle.Blocking")
	// ErrCrashed is the error of Wait after the host has crashed.
	ErrCrashed error = crashed{}
)

type crashed struct{}

func (crashed) Error() string { return "sim: the host has crashed" }

// Killed reports that the loop did not end by a failure of its tasks, so that no tree of
// tasks is needed.
func (crashed) Killed() bool { return true }

// World is a set of hosts, the network between them, and a clock. Only the driving
// goroutine, or the process that it has resumed, may use it.
type World struct {
	now       atomic.Int64 // written by the driver, read by any goroutine
	seed      uint64
	order     *rand.Rand
	queue     queue
	eventsNow int // events that were run at the present time

	hosts       []*Host
	names       map[string]*Host
	addrs       map[netip.Addr]*Host
	links       map[[2]*Host]*Link
	delay       Delay                // of links without their own
	conns       uint32               // so far
	pids        uint32               // so far
	steps       uint64               // events that were run
	leftOpen    int                  // descriptors that programs left open when they ended
	processes   []*Process           // those that have not ended
	runnable    []*Process           // processes that can be resumed
	senders     map[sending][]sender // nil unless tasks are named
	stepping    *Process             // the stepped process that Next returns; nil for none
	idleWaiters []*Process           // to be resumed when every process waits
	trace       Trace
	journal     *Journal // nil unless two runs are compared

	faultRates FaultRates
	driver     atomic.Uintptr          // the goroutine that drives; 0 for none
	current    atomic.Pointer[Process] // the process that runs; nil while the driver does
	alone      atomic.Pointer[Process] // a process that drives the world itself; nil for none
	beat       atomic.Uint64           // written by the running process, read by any goroutine
	passes     atomic.Uint64           // odd while time passes in the bubble; written by the driver, read by any goroutine
	bubble     Bubble                  // nil for none

	watchedContexts atomic.Int32 // of all processes; any goroutine

	// workTime is how long offloaded work takes; nil means no time.
	workTime Delay
	workRand *rand.Rand

	step     func() error // called after every step; nil for none
	observer Observer     // nil for none

	notified atomic.Bool // woken or stray may be set; any goroutine
	mu       sync.Mutex
	stray    error      // an error of Report; guarded by mu
	woken    []*Process // by Wake, from any goroutine; guarded by mu
	busy     []*Process // have offloaded work to run; guarded by mu
}

// New makes an empty world.
func New(seed uint64) *World {
	w := &World{
		seed:  seed,
		names: make(map[string]*Host),
		addrs: make(map[netip.Addr]*Host),
		links: make(map[[2]*Host]*Link),
		delay: Uniform(200*time.Microsecond, time.Millisecond),
	}
	w.order = w.Rand("order")
	w.workRand = w.Rand("work")
	w.trace.hash, w.trace.keep = fnvOffset, keepBytes
	return w
}

// NewKernel returns the kernel of a process in a new world of one host.
func NewKernel() *kernel.Kernel { return New(1).AddHost("sim").NewProcess().Kernel() }

// Rand returns the random source with the given name.
func (w *World) Rand(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// Seed returns the seed of the world.
func (w *World) Seed() uint64 { return w.seed }

// Now returns the time since the world began. It may be called from any goroutine.
func (w *World) Now() time.Duration { return time.Duration(w.now.Load()) }

// Steps returns the number of events that were run: arrivals, acknowledgements, timers.
func (w *World) Steps() uint64 { return w.steps }

// LeftOpen returns how many descriptors programs left open when they ended.
func (w *World) LeftOpen() int { return w.leftOpen }

// SetDelay sets the latency of links that have none of their own.
func (w *World) SetDelay(d Delay) { w.delay = d }

// SetWorkTime sets how long offloaded work takes.
func (w *World) SetWorkTime(d Delay) { w.workTime = d }

// SetStep sets a function that Drive calls after every step. Its error ends Drive.
func (w *World) SetStep(fn func() error) { w.step = fn }

// Observer looks at the world at certain times. It does not take part in the run: events,
// their order and what is drawn from the seed are the same without it.
type Observer interface {
	// Due returns when Observe is to be called next.
	Due() time.Duration
	// Observe is called when the time of Due has come and nothing more happens at that
	// time: every process waits. Due must return a later time after it.
	Observe()
}

// SetObserver sets the observer, nil for none.
func (w *World) SetObserver(o Observer) { w.observer = o }

// at schedules a call of do.
func (w *World) at(at time.Duration, do func(on any, n, m uint64), on any, n, m uint64) {
	w.queue.put(at, event{do, on, n, m})
}

// After calls fn when d has passed, between the steps of processes.
func (w *World) After(d time.Duration, fn func()) {
	w.at(w.Now()+max(d, 0), callFunc, fn, 0, 0)
}

func callFunc(on any, _, _ uint64) { on.(func())() }

// runDue runs the events that are due now.
func (w *World) runDue() {
	now := w.Now()
	for w.eventsNow < maxBurst {
		if at, ok := w.queue.next(); !ok || at > now {
			return
		}
		w.runEvent()
	}
}

// maxBurst is the maximal number of events at one time.
const maxBurst = 1 << 22

func (w *World) runEvent() {
	w.steps++
	w.eventsNow++
	e := w.queue.take()
	e.do(e.on, e.n, e.m)
}

// Drive runs events and processes until done returns true. It fails with ErrDeadlock if
// nothing can happen any more.
func (w *World) Drive(done func() bool) error {
	outer := w.driver.Swap(goid.Current())
	defer w.driver.Store(outer)
	if w.bubble != nil && w.alone.Load() == nil { // before, time passed only in the bubble
		w.now.Store(int64(w.bubble.Begin()))
	}
	for !done() {
		if err := w.advance(); err != nil {
			return err
		}
		if w.step != nil {
			if err := w.step(); err != nil {
				return err
			}
		}
	}
	return nil
}

// advance makes one step: it runs a due event, or else a runnable process, or else what
// was deferred until every process waits. Otherwise it lets time pass.
func (w *World) advance() error {
	if found, err := w.takeNotices(); found || err != nil {
		return err
	}
	if at, ok := w.queue.next(); ok && at <= w.Now() {
		if w.eventsNow >= maxBurst {
			return fmt.Errorf("%w (World.After calls itself without a delay)", ErrStandstill)
		}
		w.runEvent()
		return nil
	}
	if len(w.runnable) > 0 {
		w.pick().resume()
		return nil
	}
	if w.resumeContextWaiters() || w.resumeIdleWaiters() || w.startWork() {
		return nil
	}
	return w.pass()
}

// pass lets time pass until the next event, or until the observer is due.
func (w *World) pass() error {
	w.eventsNow = 0
	at, ok := w.queue.next()
	if o := w.observer; o != nil {
		for o.Due() <= w.Now() {
			o.Observe()
		}
		if ok {
			at = min(at, o.Due())
		}
	}
	switch {
	case w.bubble != nil:
		w.passes.Add(1)
		defer w.passes.Add(1)
		return w.passInBubble(at, ok)
	case !ok:
		return ErrDeadlock
	}
	w.now.Store(int64(at))
	return nil
}

// pick removes and returns one of the runnable processes.
func (w *World) pick() *Process {
	i := 0
	if len(w.runnable) > 1 {
		i = w.order.IntN(len(w.runnable))
	}
	p := w.runnable[i]
	last := len(w.runnable) - 1
	w.runnable[i] = w.runnable[last]
	w.runnable[last] = nil
	w.runnable = w.runnable[:last]
	w.trace.mix(uint64(p.id), uint64(w.Now()))
	return p
}

// takeNotices handles what other goroutines have left: it makes processes runnable that
// Wake was called for, and returns an error of Report. It reports whether there was
// anything. The process that was woken may be the one that drives the world.
func (w *World) takeNotices() (found bool, err error) {
	if !w.notified.Load() {
		return false, nil
	}
	w.mu.Lock()
	woken, stray := w.woken, w.stray
	w.woken, w.stray = nil, nil
	w.notified.Store(false)
	w.mu.Unlock()
	for _, p := range woken {
		if p.woken.Load() {
			p.makeRunnable()
		}
	}
	return true, stray
}

// resumeIdleWaiters makes the processes runnable that wait until all others wait. It
// reports whether there were any.
func (w *World) resumeIdleWaiters() bool {
	idleWaiters := w.idleWaiters
	w.idleWaiters = nil
	for _, p := range idleWaiters {
		p.notifyIdle = true
		p.makeRunnable()
	}
	return len(idleWaiters) > 0
}

// startWork starts one piece of offloaded work: it runs now, or when its time has passed.
// It reports whether there was any.
func (w *World) startWork() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.busy) > 0 {
		p := w.busy[0]
		w.busy = w.busy[1:]
		if len(p.work) == 0 || p.state == ended {
			continue
		}
		work := p.work[0]
		p.work = p.work[1:]
		if w.workTime == nil {
			p.Interrupt(work)
		} else {
			w.at(w.Now()+w.workTime(w.workRand), doWork, &job{p, work}, 0, 0)
		}
		return true
	}
	return false
}

type job struct {
	p    *Process
	work func()
}

func doWork(on any, _, _ uint64) {
	j := on.(*job)
	j.p.Interrupt(j.work)
}

// Fail ends the Wait of every waiting process with err, in the order in which the
// processes were made.
func (w *World) Fail(err error) {
	for _, p := range w.processes {
		if p.state == waiting {
			p.failure = err
			p.makeRunnable()
		}
	}
}
