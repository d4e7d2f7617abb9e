package simkernel

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/kernel"
)

// Process is a program on a host: descriptors, a poller, and a coroutine that is in Wait
// while other processes run.
type Process struct {
	w    *World
	host *Host
	id   uint32

	state       state
	heldByPause bool     // it becomes runnable when its host is resumed
	notifyIdle  bool     // Wait calls OnIdle
	interrupts  []func() // functions to run inside Wait
	failure     error    // the next error of Wait
	killed      error    // the reason of Kill; nil if the process was not killed
	deadline    time.Duration
	timer       time.Duration // the time of its next timer event; never if there is none
	polls       int           // calls of Wait at polledAt
	polledAt    time.Duration
	closed      bool

	main  func()      // nil if the process drives the world itself
	next  func() bool // continues main until it yields; it reports false when main has returned
	yield func()      // returns to the caller of next
	dead  bool        // ended by Goexit

	stepped bool // it has no coroutine: see ExecStepped

	files *files // shared with siblings
	ready readyList

	leader   *Process   // the process that this is a sibling of; nil for none
	siblings []*Process // made by Sibling

	foreign    func() bool // of the loop that uses the process; nil before there is one
	owner      atomic.Pointer[func() uintptr]
	g          atomic.Uintptr // the goroutine that began the program
	standstill bool           // Wait has failed with ErrStandstill
	contexts   contexts

	// OnIdle is called inside Wait when every process waits, after AwaitIdle.
	OnIdle func()
	// Describe names the running task, or those that began to wait at the present
	// time. It is called on the program's goroutine. It may be nil.
	Describe func() string
	// Running names the running task, "" for none. It is called on the program's
	// goroutine. It may be nil.
	Running func() string
	// OnEnd is called by the driver when the program has returned.
	OnEnd func()

	woken atomic.Bool // any goroutine

	mu   sync.Mutex
	rand *rand.Rand // guarded by mu

	work []func() // offloaded; guarded by the world's mu
}

type state uint8

const (
	running state = iota // or about to begin
	waiting
	runnable
	ended
)

const never = time.Duration(1<<63 - 1)

// NewProcess makes a process on a host. Until Exec gives it a program, its Wait drives the
// world.
func (h *Host) NewProcess() *Process {
	w := h.w
	w.pids++
	p := &Process{w: w, host: h, id: w.pids, timer: never, rand: w.Rand("process " + h.name + " " + strconv.Itoa(int(w.pids)))}
	p.files = newFiles()
	w.processes = append(w.processes, p)
	w.alone.CompareAndSwap(nil, p)
	return p
}

// Kernel returns the process's kernel.
func (p *Process) Kernel() *kernel.Kernel {
	return &kernel.Kernel{Poller: p, Sockets: p, Clock: p, Rand: p, Workers: p, Resolver: p, Follower: p}
}

// Host returns the host that the process runs on.
func (p *Process) Host() *Host { return p.host }

// World returns the world of the process.
func (p *Process) World() *World { return p.w }

// ID returns the number of the process in its world.
func (p *Process) ID() uint32 { return p.id }

// Lives reports whether the process belongs to w and has neither ended nor been killed.
func (p *Process) Lives(w *World) bool { return p.w == w && p.state != ended && p.killed == nil }

// Exec makes main the process's program. It starts when the world is next driven. Main
// runs on its own goroutine and may start others, as a loop does for its turns: the
// goroutine that calls Wait is the one that continues when Wait returns.
func (p *Process) Exec(main func()) {
	p.main = main
	p.w.alone.CompareAndSwap(p, nil)
	p.state = waiting
	p.makeRunnable()
}

// begin makes the coroutine. The driver calls it, because the runtime requires that a
// coroutine is made and resumed under the same thread lock, or none.
func (p *Process) begin() {
	main := p.main
	p.next = newSwitch(func(yield func()) {
		p.yield = yield
		p.g.Store(goid.Current())
		returned := false
		defer func() {
			goid.ThreadLock{}.Restore() // the threads of a real process end with it
			if !returned {              // otherwise Goexit would end the driver too
				p.dead = true
				yield()
			}
		}()
		main()
		returned = true
	})
}

// makeRunnable makes a waiting process runnable.
func (p *Process) makeRunnable() {
	if p.state != waiting {
		return
	}
	p.state = runnable
	switch {
	case p.main == nil && !p.stepped: // it drives the world itself
	case p.host.paused:
		p.heldByPause = true
	default:
		p.w.runnable = append(p.w.runnable, p)
	}
}

// resume runs the process until it waits.
func (p *Process) resume() {
	if p.host.paused {
		p.heldByPause = true
		return
	}
	if p.stepped {
		p.step()
		return
	}
	mustDriveUnlocked()
	if p.next == nil {
		p.begin()
	}
	p.state = running
	p.w.current.Store(p)
	more := p.next()
	p.w.current.Store(nil)
	if p.dead {
		go p.next() // to finish the exit
	}
	if !more || p.dead {
		p.end()
	}
}

// end ends the process and closes its descriptors.
func (p *Process) end() {
	if p.state == ended {
		return
	}
	p.state = ended
	if p.leader == nil {
		if p.killed == nil {
			p.w.leftOpen += p.files.open
		}
		p.closeAll()
	}
	p.finishWork()
	p.contexts.forgetAll(p.w)
	for i, other := range p.w.processes {
		if other == p {
			last := len(p.w.processes) - 1
			p.w.processes[i] = p.w.processes[last]
			p.w.processes[last] = nil
			p.w.processes = p.w.processes[:last]
			break
		}
	}
	if p.OnEnd != nil {
		p.OnEnd()
	}
}

// Kill ends the process from outside. Its connections are reset, and the next Wait that
// would have to wait fails with why. The program still runs until then, without access to
// the world, because a goroutine cannot be ended from outside.
func (p *Process) Kill(why error) {
	if p.state == ended || p.killed != nil {
		return
	}
	p.killed = why
	for _, sibling := range p.siblings {
		sibling.Kill(why)
	}
	for _, f := range p.files.all() {
		f.object.reset()
	}
	p.closeAll()
	if p.stepped {
		p.end() // there is no coroutine to unwind
		return
	}
	p.makeRunnable()
}

func (p *Process) closeAll() {
	for _, f := range p.files.all() {
		p.CloseFD(f.fd)
	}
}

// Interrupt runs fn inside the process's Wait, on the goroutine that waits.
func (p *Process) Interrupt(fn func()) {
	p.interrupts = append(p.interrupts, fn)
	p.makeRunnable()
}

// AwaitIdle makes the world call OnIdle when every process waits, before time passes.
func (p *Process) AwaitIdle() {
	for _, other := range p.w.idleWaiters {
		if other == p {
			return
		}
	}
	p.w.idleWaiters = append(p.w.idleWaiters, p)
}

// Name returns "sim".
func (p *Process) Name() string { return "sim" }

// Wait lets other processes run until an event is ready or the timeout has passed.
func (p *Process) Wait(events []kernel.Event, timeout time.Duration) (int, error) {
	switch {
	case p.closed:
		return 0, syscall.EBADF
	case p.killed != nil:
		return p.waitKilled(timeout)
	}
	if err := p.checkUnlocked(); err != nil {
		return 0, err
	}
	p.w.runDue()
	if now := p.w.Now(); now != p.polledAt {
		p.polledAt, p.polls = now, 0
	}
	p.polls++
	p.w.beat.Store(p.w.beat.Load() + 1) // no race: one process runs at a time
	if p.polls%pollsPerTurn == 0 {
		if err := p.yieldTurn(); err != nil {
			return 0, err
		}
	}
	if p.runInterrupts() {
		timeout = 0
	}
	n := p.ready.collect(p.w, events)
	if n > 0 || timeout == 0 || p.woken.Load() {
		p.woken.Store(false)
		return n, nil
	}
	if err := p.await(timeout); err != nil {
		return 0, err
	}
	p.woken.Store(false)
	p.runInterrupts()
	return p.ready.collect(p.w, events), nil
}

// waitKilled is Wait for a process that was killed: a call that need not wait succeeds,
// but not without limit.
func (p *Process) waitKilled(timeout time.Duration) (int, error) {
	if p.polls++; timeout == 0 && p.polls%maxPolls != 0 {
		return 0, nil
	}
	return 0, p.killed
}

// runInterrupts runs the functions that are to run inside Wait. It reports whether there
// were any.
func (p *Process) runInterrupts() bool {
	ran := p.notifyIdle || len(p.interrupts) > 0
	if p.contexts.call(p.w) {
		ran = true
	}
	if p.notifyIdle {
		p.notifyIdle = false
		if p.OnIdle != nil {
			p.OnIdle()
		}
	}
	interrupts := p.interrupts
	p.interrupts = nil
	for _, fn := range interrupts {
		fn()
	}
	return ran
}

// await waits until the process is made runnable.
func (p *Process) await(timeout time.Duration) error {
	p.beginWait(timeout)
	if p.yield != nil {
		p.yield()
	} else if err := p.w.Drive(func() bool { return p.state != waiting }); err != nil {
		p.state = running
		return err
	}
	p.state = running
	p.deadline = never
	if p.killed != nil && p.failure == nil {
		return p.killed
	}
	err := p.failure
	p.failure = nil
	return err
}

// Wake ends the process's Wait. It may be called from any goroutine.
func (p *Process) Wake() {
	if p.woken.Swap(true) {
		return
	}
	p.w.mu.Lock()
	p.w.woken = append(p.w.woken, p)
	p.w.notified.Store(true)
	p.w.mu.Unlock()
}

// Close closes the poller. A process without a program ends with it.
func (p *Process) Close() error {
	p.closed = true
	for _, f := range p.files.all() {
		if f.p == p {
			f.watched = false
		}
	}
	if p.main == nil {
		p.end()
	}
	return nil
}
