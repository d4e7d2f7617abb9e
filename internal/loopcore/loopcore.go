// Package loopcore holds the part of an event loop that the packages of this module use
// directly: the ready lanes, the watched descriptors, the inbox, the worker pool, the
// owner, the kernel, and the state that other packages keep with a loop. loop.Loop
// contains a Loop, and its method Internal returns it. Users of the module do not see this
// package.
//
// Package loop runs the turns, and has the timers. It is the only one to call the
// methods and to set the fields that say so.
//
// Unless its comment says otherwise, a method is for the goroutine that owns the loop.
package loopcore

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/kernel"
)

// Errors of package loop, which documents them.
var (
	ErrClosed = errors.New("loop: closed")
	ErrBusy   = errors.New("loop: too many jobs wait for a worker")
	ErrGoexit = errors.New("runtime.Goexit")
)

// Loop is the core of an event loop. It is made by Init, as a field of a loop.Loop, and
// not copied.
type Loop struct {
	config  Config         // set by Init
	id      uint64         // set by Init
	witness kernel.Witness // set by Init; nil on a real kernel

	owner identity      // the goroutine that may use the loop; see owner.go
	state atomic.Uint32 // idle, running or closed; any goroutine

	// Pulse is odd while callbacks run and even while the loop waits in the kernel.
	// It grows with every poll. Package loop writes it; any goroutine reads it.
	Pulse atomic.Uint32

	done    chan struct{} // closed with the loop; any goroutine
	blocked blockedTurns  // any goroutine
	running describer     // any goroutine
	host    host          // any goroutine
	inbox   inbox         // any goroutine
	workers workers       // any goroutine
	pools   pools         // any goroutine

	// Loop goroutine only from here. Package loop sets the exported fields.
	goWait  goWait
	watches watches
	lanes   [priorities]lane
	serving *lane // the lane with the running batch

	InRun         bool   // the loop is in Run, and waits when it has nothing to do
	AfterWait     func() // called after a wait of goWait; nil for none
	TimersChanged bool   // a timer was set after the last WaitInGo

	TimersDue bool          // a timer may be due at the turn's time
	SincePoll int           // callbacks since the kernel was polled
	pollAfter int           // callbacks after which PollDue reports true
	freeWaits int8          // see FreeWaits
	Turns     uint64        // begun so far
	posted    uint64        // entries taken from the inbox so far
	now       time.Duration // also read by LastPoll

	Phases *Phases // nil unless an inspector is attached; package inspect sets it
	Lags   Lags    // how late timers were

	entered goid.ThreadLock // of the owner when it began to run the loop
	onEntry func()          // nil for most
	values  []value         // of PerLoop

	// Scheduler is package coro's state, a *coro.Scheduler, nil before the first task.
	// It is not a PerLoop, because every Read and Write of a connection looks it up.
	Scheduler any

	// Failure is the reason why Run must return, and the result of Config.Caught.
	Failure error

	// While the loop is closed.
	atCloseNext uint64 // where DrainAtClose continues, in the Normal lane
	closeErrs   []error
}

// Config is what package loop gives to Init.
type Config struct {
	Outer    any    // the *loop.Loop that contains this Loop
	Name     string // see loop.Options.Name
	Kernel   *kernel.Kernel
	Debug    bool // see loop.Options.Debug
	Observed bool // an observer receives every turn

	Workers int // the most goroutines of Offload
	MaxJobs int // the most jobs that wait for a worker, in each pool

	// PoolFull is called once for each pool in which jobs have waited for long: pool is nil
	// for the loop's own. Nil if it is not to be reported.
	PoolFull func(pool *Pool, limit, waiting int, since time.Duration)

	// Caught sets Failure after a panic in a callback, or after a Goexit if
	// recovered is nil.
	Caught func(recovered any)

	// PanicError returns the error for a panic in offloaded work.
	PanicError func(value any, stack []byte) error
}

// Init prepares c. Package loop calls it once.
func (c *Loop) Init(config Config) {
	goid.Verify()
	c.config = config
	c.now = config.Kernel.Mono()
	c.freeWaits = MaxFreeWaits
	c.done = make(chan struct{})
	c.workers.limit, c.workers.most = config.Workers, config.MaxJobs
	c.Pulse.Store(1)
	c.register()
	if w, ok := config.Kernel.Poller.(kernel.Witness); ok {
		c.witness = w
		w.Attend(c.runsElsewhere, c.Owner)
	}
}

// Kernel returns the interface to the operating system. Any goroutine may call it.
func (c *Loop) Kernel() *kernel.Kernel { return c.config.Kernel }

// Debug reports whether loop.Options.Debug is set. Any goroutine may call it.
func (c *Loop) Debug() bool { return c.config.Debug }

// Done returns a channel that is closed with the loop. Any goroutine may call it.
func (c *Loop) Done() <-chan struct{} { return c.done }

// TurnTime returns the loop's time as it was when the kernel was last polled. It costs
// nothing, and must not be used to set timers.
func (c *Loop) TurnTime() time.Duration { return c.now }

// ReadClock reads the clock for TurnTime. Package loop calls it after each poll.
func (c *Loop) ReadClock() time.Duration {
	c.now = c.config.Kernel.Mono()
	return c.now
}

// Interrupt wakes the loop if it waits in the kernel. The caller has published what the
// loop is to see, and the loop looks for it after it made the pulse even: one of the two
// always sees the other. Any goroutine may call it.
func (c *Loop) Interrupt() {
	if c.Pulse.Load()&1 == 0 {
		if c.goWait.active.Load() {
			c.goWait.notify()
			return
		}
		c.config.Kernel.Wake()
	}
}

// Guard calls fn and passes a panic or a Goexit in it to Config.Caught. It reports
// whether fn returned. Callers keep their progress in the loop, so that the next call
// continues after the callback that panicked: one deferred call guards any number of
// callbacks.
func (c *Loop) Guard(fn func()) (returned bool) {
	defer func() {
		if !returned {
			c.serving = nil
			c.config.Caught(recover())
		}
	}()
	fn()
	return true
}
