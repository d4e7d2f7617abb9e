// Package simkernel is a simulated system: a network of hosts, each with processes
// whose kernels fulfil the contract of package kernel, under one virtual clock.
// Package sim gives it to users; here is how it works.
//
// # One thing at a time
//
// A World is a queue of events (a segment arrives, a timer is due) and a set of
// processes. A process is a coroutine: it runs until its kernel's Wait has
// nothing for it, and then whoever drives the world goes on. So exactly one of
// them runs at any moment, and everything here is touched by one goroutine at a
// time without a lock. What the contract allows any goroutine (Wake, Mono, Wall,
// Uint64, Start, LookupNetIP) is guarded, and says so.
//
// A process may also be driven by nobody: then its Wait drives the world itself.
// That is how a test of one host, and the conformance suite, use it.
//
// # Time
//
// Time passes only when every process waits: it jumps to the next event. Between
// two events nothing takes time.
//
// # The seed
//
// Every choice is drawn from the seed: which of several processes runs first, in
// which order it learns of its events, how long a segment travels, what is lost.
// Each link, each process and the order of running have a source of their own, so
// that a change to one leaves the draws of the others as they were.
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
)

var (
	// ErrDeadlock says that every process waits and nothing can wake one.
	ErrDeadlock = errors.New("sim: deadlock: every task waits, and nothing can wake one")
	// ErrStandstill says that processes run and run and no time passes.
	ErrStandstill = errors.New("sim: no time passes: a task runs again and again and never waits for anything")
	// ErrStray says that a goroutine that is not the program's own has a hand in
	// the run.
	ErrStray = errors.New("sim: a goroutine that the program has started has a hand in it; no two runs are the same")
	// ErrCrashed is the error of Wait in a process whose host has crashed.
	ErrCrashed error = crashed{}
)

type crashed struct{}

func (crashed) Error() string { return "sim: the host has crashed" }

// Killed says that the end of the loop is no failure of its tasks, so that nothing
// needs to know where they were.
func (crashed) Killed() bool { return true }

// World is everything there is. The goroutine that drives it, or the process that
// it has resumed, is the only one to use it.
type World struct {
	now   atomic.Int64 // written by the driver, read by any goroutine
	seed  uint64
	order *rand.Rand
	queue queue
	burst int // events that have happened at this moment

	hosts     []*Host
	names     map[string]*Host
	addrs     map[netip.Addr]*Host
	links     map[[2]*Host]*Link
	delay     Delay      // of links that have none of their own
	conns     uint32     // so far
	pids      uint32     // so far
	steps     uint64     // events that have happened
	leftOpen  int        // descriptors that programs left open when they ended
	processes []*Process // those that have not ended
	runnable  []*Process // coroutines that may go on
	idlers    []*Process // to be told when everybody waits
	trace     Trace
	journal   *Journal // nil unless two runs are to be compared

	trouble Trouble
	driver  atomic.Uintptr          // the goroutine that drives; 0 for none
	current atomic.Pointer[Process] // whose turn it is; nil for the driver's
	alone   atomic.Pointer[Process] // one that drives the world itself; nil for none
	beat    atomic.Uint64           // written by whichever process runs, read by any goroutine
	passes  atomic.Uint64           // odd while time passes in the bubble; written by the driver, read by any goroutine
	bubble  Bubble                  // nil for none

	following atomic.Int32 // contexts; any goroutine

	// Work takes as long as this says; nil means no time.
	workTime Delay
	workRand *rand.Rand

	step func() error // called after every step; nil for none

	called atomic.Bool // woken or offloaded may have something
	mu     sync.Mutex
	stray  error      // a goroutine that is nobody's; guarded by mu
	woken  []*Process // by Wake, from any goroutine; guarded by mu
	busy   []*Process // that have work to do; guarded by mu
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

// Rand is the source of random numbers that belongs to a name.
func (w *World) Rand(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// Seed is where everything came from.
func (w *World) Seed() uint64 { return w.seed }

// Now is the time since the world began. It may be called from any goroutine.
func (w *World) Now() time.Duration { return time.Duration(w.now.Load()) }

// Steps is how many events have happened: arrivals, acknowledgements, timers.
func (w *World) Steps() uint64 { return w.steps }

// LeftOpen is how many descriptors programs have left open when they ended.
func (w *World) LeftOpen() int { return w.leftOpen }

// SetDelay sets how long things travel on links that were not told otherwise.
func (w *World) SetDelay(d Delay) { w.delay = d }

// SetWorkTime sets how long offloaded work takes.
func (w *World) SetWorkTime(d Delay) { w.workTime = d }

// SetStep has fn called whenever something has happened; its error ends Drive.
func (w *World) SetStep(fn func() error) { w.step = fn }

// at has do called at a time.
func (w *World) at(at time.Duration, do func(on any, n, m uint64), on any, n, m uint64) {
	w.queue.put(at, event{do, on, n, m})
}

// After calls fn when d has passed, between the steps of processes.
func (w *World) After(d time.Duration, fn func()) {
	w.at(w.Now()+max(d, 0), callFunc, fn, 0, 0)
}

func callFunc(on any, _, _ uint64) { on.(func())() }

// settle does what is due now.
func (w *World) settle() {
	now := w.Now()
	for w.burst < mostBurst {
		if at, ok := w.queue.next(); !ok || at > now {
			return
		}
		w.happen()
	}
}

// mostBurst is how many events may happen at one moment.
const mostBurst = 1 << 22

func (w *World) happen() {
	w.steps++
	w.burst++
	e := w.queue.take()
	e.do(e.on, e.n, e.m)
}

// Drive lets things happen until done says so. It fails with ErrDeadlock if
// nothing can happen any more.
func (w *World) Drive(done func() bool) error {
	outer := w.driver.Swap(goid.Current())
	defer w.driver.Store(outer)
	if w.bubble != nil && w.alone.Load() == nil { // whatever was done before took time of the bubble's only
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

// advance does one thing: what is due, else what may run, else what was put off
// until everybody waits, else it lets time pass.
func (w *World) advance() error {
	if heard, err := w.heed(); heard || err != nil {
		return err
	}
	if at, ok := w.queue.next(); ok && at <= w.Now() {
		if w.burst >= mostBurst {
			return fmt.Errorf("%w (World.After calls itself without a delay)", ErrStandstill)
		}
		w.happen()
		return nil
	}
	if len(w.runnable) > 0 {
		w.pick().resume()
		return nil
	}
	if w.tellFollowers() || w.tellIdlers() || w.beginWork() {
		return nil
	}
	return w.pass()
}

// pass lets time pass until the next event.
func (w *World) pass() error {
	w.burst = 0
	at, ok := w.queue.next()
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

// pick takes one of the runnable processes.
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

// heed lets those go on who were woken by whatever goroutine, and tells whether
// there were any: it may be who drives. It fails if the goroutine was one that it
// should not have been.
func (w *World) heed() (heard bool, err error) {
	if !w.called.Load() {
		return false, nil
	}
	w.mu.Lock()
	woken, stray := w.woken, w.stray
	w.woken, w.stray = nil, nil
	w.called.Store(false)
	w.mu.Unlock()
	for _, p := range woken {
		if p.woken.Load() {
			p.goOn()
		}
	}
	return true, stray
}

// tellIdlers lets those go on who want to see everybody wait.
func (w *World) tellIdlers() bool {
	idlers := w.idlers
	w.idlers = nil
	for _, p := range idlers {
		p.idle = true
		p.goOn()
	}
	return len(idlers) > 0
}

// beginWork lets one piece of offloaded work be done, or begin to take its time.
func (w *World) beginWork() bool {
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
			p.order(work)
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
	j.p.order(j.work)
}

// Fail has every process that waits hear of an error, in the order in which they
// were made.
func (w *World) Fail(err error) {
	for _, p := range w.processes {
		if p.state == waiting {
			p.failure = err
			p.goOn()
		}
	}
}
