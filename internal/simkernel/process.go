package simkernel

import (
	"iter"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/kernel"
)

// Process is a program on a host: descriptors, a poller, and a coroutine that
// stands in Wait whenever others run.
type Process struct {
	w    *World
	host *Host
	id   uint32

	state    state
	held     bool     // it could run, but its host is paused
	idle     bool     // it is to be told that everybody waits
	orders   []func() // to be run inside Wait
	failure  error    // to be returned by Wait
	killed   error    // why it was ended, if it was
	deadline time.Duration
	timer    time.Duration // when its next timer event is; never, if there is none
	looks    int           // how often it has asked at one moment of time
	lookedAt time.Duration // which
	closed   bool

	main  func() // nil if the process drives the world itself
	next  func() (struct{}, bool)
	yield func(struct{}) bool
	dead  bool // ended by Goexit

	files *files // a crew has them in common
	ready readyList

	leader *Process   // of the crew that it is a member of; nil for a process of its own
	crew   []*Process // its members, if it has some

	foreign func() bool // of the loop on top; nil before there is one
	owner   atomic.Pointer[func() uintptr]
	g       atomic.Uintptr // the goroutine that began the program
	stuck   bool           // it was told that it never waits
	follows follows        // contexts

	// OnIdle is called inside Wait when everybody waits, after AwaitIdle.
	OnIdle func()
	// Describe names the task that runs, or those that have begun to wait at this
	// moment. It is called on the program's goroutine; nil if that is not known.
	Describe func() string
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

// NewProcess makes a process on a host. Until it is given a program by Exec, its
// Wait drives the world.
func (h *Host) NewProcess() *Process {
	w := h.w
	w.pids++
	p := &Process{w: w, host: h, id: w.pids, timer: never, rand: w.Rand("process " + h.name + " " + strconv.Itoa(int(w.pids)))}
	p.files = newFiles()
	w.processes = append(w.processes, p)
	w.alone.CompareAndSwap(nil, p)
	return p
}

// Kernel is the process's kernel.
func (p *Process) Kernel() *kernel.Kernel {
	return &kernel.Kernel{Poller: p, Sockets: p, Clock: p, Rand: p, Workers: p, Resolver: p, Follower: p}
}

// Host is where the process runs.
func (p *Process) Host() *Host { return p.host }

// Exec has main run as the process's program, beginning when the world is next
// driven. Main runs on a goroutine of its own and may start others, as a loop
// does for its turns: whichever of them calls Wait is the one that goes on when
// Wait returns. The coroutine is iter.Pull's, which passes control between
// whoever calls next and whoever calls yield, and does not ask who they are.
func (p *Process) Exec(main func()) {
	p.main = main
	p.w.alone.CompareAndSwap(p, nil)
	p.state = waiting
	p.goOn()
}

// begin makes the coroutine. That is left to the driver, because the runtime wants
// a coroutine to be made and resumed under the same lock to a thread, or none.
func (p *Process) begin() {
	main := p.main
	p.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		p.yield = yield
		p.g.Store(goid.Current())
		returned := false
		defer func() {
			goid.ThreadLock{}.Restore() // a real process ends with its threads
			if !returned {              // a Goexit would end the driver too
				p.dead = true
				yield(struct{}{})
			}
		}()
		main()
		returned = true
	})
}

// goOn lets a process that waits continue when the driver comes to it.
func (p *Process) goOn() {
	if p.state != waiting {
		return
	}
	p.state = runnable
	switch {
	case p.main == nil: // it drives the world itself
	case p.host.paused:
		p.held = true
	default:
		p.w.runnable = append(p.w.runnable, p)
	}
}

// resume runs the process until it waits.
func (p *Process) resume() {
	if p.host.paused {
		p.held = true
		return
	}
	mustDriveUnlocked()
	if p.next == nil {
		p.begin()
	}
	p.state = running
	p.w.current.Store(p)
	_, more := p.next()
	p.w.current.Store(nil)
	if p.dead {
		go p.next() // to finish the exit
	}
	if !more || p.dead {
		p.end()
	}
}

// end is the end of a process: the system closes what it has left open.
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
	p.follows.drop(p.w)
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

// Kill ends a process from outside: its connections are reset, and its next Wait
// that would have to wait fails with why. It still runs its last, cut off from
// the world: a goroutine cannot be ended where it stands.
func (p *Process) Kill(why error) {
	if p.state == ended || p.killed != nil {
		return
	}
	p.killed = why
	for _, member := range p.crew {
		member.Kill(why)
	}
	for _, f := range p.files.all() {
		f.object.reset()
	}
	p.closeAll()
	p.goOn()
}

func (p *Process) closeAll() {
	for _, f := range p.files.all() {
		p.CloseFD(f.fd)
	}
}

// Interrupt has fn run inside the process's Wait, on the goroutine that waits.
func (p *Process) Interrupt(fn func()) { p.order(fn) }

func (p *Process) order(fn func()) {
	p.orders = append(p.orders, fn)
	p.goOn()
}

// AwaitIdle has OnIdle called when every process waits, before time passes.
func (p *Process) AwaitIdle() {
	for _, other := range p.w.idlers {
		if other == p {
			return
		}
	}
	p.w.idlers = append(p.w.idlers, p)
}

// Name is "sim".
func (p *Process) Name() string { return "sim" }

// Wait is where a process gives way to the others.
func (p *Process) Wait(events []kernel.Event, timeout time.Duration) (int, error) {
	switch {
	case p.closed:
		return 0, syscall.EBADF
	case p.killed != nil:
		return p.linger(timeout)
	}
	if err := p.unlocked(); err != nil {
		return 0, err
	}
	p.w.settle()
	if now := p.w.Now(); now != p.lookedAt {
		p.lookedAt, p.looks = now, 0
	}
	p.looks++
	p.w.beat.Store(p.w.beat.Load() + 1) // a process at a time
	if p.looks%restLooks == 0 {
		if err := p.rest(); err != nil {
			return 0, err
		}
	}
	if p.obey() {
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
	p.obey()
	return p.ready.collect(p.w, events), nil
}

// linger is Wait for a process that was killed: it may run what is ready, within
// reason.
func (p *Process) linger(timeout time.Duration) (int, error) {
	if p.looks++; timeout == 0 && p.looks%mostLooks != 0 {
		return 0, nil
	}
	return 0, p.killed
}

// obey does what the process was told to do inside Wait.
func (p *Process) obey() bool {
	told := p.idle || len(p.orders) > 0
	if p.follows.call(p.w) {
		told = true
	}
	if p.idle {
		p.idle = false
		if p.OnIdle != nil {
			p.OnIdle()
		}
	}
	orders := p.orders
	p.orders = nil
	for _, fn := range orders {
		fn()
	}
	return told
}

// await waits until there is something for the process.
func (p *Process) await(timeout time.Duration) error {
	p.state = waiting
	p.deadline = never
	if timeout < 0 {
		p.did(waits, -1, nil)
	} else {
		p.did(waits, int(p.w.Now()+timeout), nil)
	}
	if timeout > 0 {
		c, now := p.host.clock.Load(), p.w.Now()
		if local := c.mono(now) + timeout; local > 0 { // otherwise it is beyond all time
			p.setTimer(c.until(now, local))
		}
	}
	if share := p.w.trouble.Spurious; share > 0 && p.w.order.Float64() < share {
		p.w.at(p.w.Now()+time.Duration(p.w.order.Int64N(int64(mostSpurious))), wakeInVain, p, 0, 0)
	}
	if p.yield != nil {
		p.yield(struct{}{})
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

// mostSpurious is how long a wait lasts, at most, that ends for no reason.
const mostSpurious = 10 * time.Millisecond

func wakeInVain(on any, _, _ uint64) { on.(*Process).goOn() }

// setTimer has the process go on at a time. A timer event that comes earlier will
// set the next one: so there is seldom more than one in the queue.
func (p *Process) setTimer(at time.Duration) {
	p.deadline = at
	if at < p.timer {
		p.timer = at
		p.w.at(at, timeOut, p, uint64(at), 0)
	}
}

func timeOut(on any, n, _ uint64) {
	p := on.(*Process)
	if p.timer != time.Duration(n) {
		return // another has taken its place
	}
	p.timer = never
	switch {
	case p.state != waiting || p.deadline == never:
	case p.deadline <= p.w.Now():
		p.goOn()
	default:
		p.setTimer(p.deadline)
	}
}

// Wake may be called from any goroutine.
func (p *Process) Wake() {
	if p.woken.Swap(true) {
		return
	}
	p.w.mu.Lock()
	p.w.woken = append(p.w.woken, p)
	p.w.called.Store(true)
	p.w.mu.Unlock()
}

// Close closes the poller. A process that no program runs on ends with it.
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
