// Package loop is a single-threaded event loop: callbacks that run one after
// the other on one goroutine, when they were asked for (CallSoon), when their
// time has come (CallLater), or when a file descriptor is ready (AddReader,
// Watch). It is the callback model of asyncio, libuv and Node, with their
// words, in Go.
//
//	l, err := loop.New(loop.Options{})
//	if err != nil { … }
//	defer l.Close()
//	l.CallLater(time.Second, func() {
//		fmt.Println("one second later")
//		l.Stop()
//	})
//	err = l.Run(ctx)
//
// # Which goroutine
//
// While a loop runs, it belongs to one goroutine, Run's own: every method is for
// callbacks on that loop, except Post, Stop and Group.Go, which are for
// any goroutine. A call from the wrong goroutine panics and says so. While the
// loop does not run, one goroutine at a time may prepare it, or step it by
// RunOnce or Poll.
//
// State that only callbacks of one loop touch needs no lock. In return no
// callback may block: everything else on the loop waits for it. Blocking and
// long work belongs on goroutines, by Offload.
//
// # One turn
//
//	      ┌───────────────────────────────────────────────────────────┐
//	      ▼                                                           │
//	┌──────────┐  ┌────────────┐  ┌─────────────┐  ┌──────┐  ┌────────┴──┐
//	│  inbox   │─▶│ due timers │─▶│ ready batch │─▶│ wait │─▶│ fd events │
//	│ (Post)   │  │            │  │  by lane    │  │      │  │           │
//	└──────────┘  └────────────┘  └─────────────┘  └──────┘  └───────────┘
//
// Each phase takes what is there when it begins, so a callback that schedules
// itself for ever delays nobody for ever. A turn runs at most 61 timers and 61
// ready callbacks. The kernel is asked, and the clock read, when nothing is
// ready or after 61 callbacks, not between any two of them: asking costs as
// much as running twenty.
//
// # Order
//
// Callbacks of one lane run in the order they were scheduled. Timers run in
// the order of their deadlines, to the nanosecond, equal ones in the order they
// were set, and never early. Callbacks posted by one goroutine run in its
// order, in the Normal lane.
//
// # Handles
//
// Handle, Timer, Watch and Job are values. Cancelling one costs no search; a
// handle whose callback has run, or was cancelled, does nothing, even when its
// place has been used again.
//
// Memory that a peak of timers, descriptors or jobs took is kept for the next
// peak; that of a peak of callbacks is given back when the loop next waits.
package loop

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/wheel"
)

// askEvery is after how many callbacks the kernel is asked although more are
// ready. It is also the most that one phase of a turn runs.
const askEvery = 61

// eventBatch is how many fd events one wait can bring.
const eventBatch = 256

// Options configure a loop. The zero value is a good loop.
type Options struct {
	// Backend names the poller: "epoll", "kqueue", "poll"; "" or "auto"
	// takes the best the system has.
	Backend string

	// OnPanic is told of a callback that panicked or called runtime.Goexit,
	// on the loop. If it returns nil the loop goes on; otherwise the loop
	// stops and Run returns that error. Nil stops the loop with the
	// *PanicError.
	OnPanic func(*PanicError) error

	// Watchdog is how long a turn of Run may take before OnBlocked hears of
	// it. Zero means 100 ms; negative means no watchdog.
	Watchdog time.Duration

	// OnBlocked is called with a report of a turn that does not end, while it does
	// not end, from a goroutine of its own. Blocked.Starved distinguishes a loop
	// that gets too little CPU. Nil prints the report to standard error.
	OnBlocked func(Blocked)

	// Observer is told of every turn. Nil costs nothing.
	Observer Observer

	// Workers is how many goroutines Offload uses at most. Zero or less
	// means 32.
	Workers int

	// MaxOffloads is how many jobs may wait for a worker; one more is
	// refused with ErrBusy. Zero means 65,536.
	MaxOffloads int

	// Debug poisons what was only lent. The entries of a slice that Pending
	// gave panic when they are run out of it after the next Poll; the bytes
	// that packages transport and stream lend are overwritten when they are
	// no longer their borrower's.
	Debug bool

	// Kernel replaces the system underneath, for the packages of this
	// module. The loop closes it. Nil opens the real one.
	Kernel *kernel.Kernel
}

// Loop is an event loop. Make one with New.
type Loop struct {
	k       *kernel.Kernel // set by New
	opts    Options        // set by New
	witness kernel.Witness // set by New; nil on a real kernel

	// owner is the goroutine that may call loop-only methods: anyone while
	// it is free, nobody once it is closed. Written with state.
	owner identity
	state atomic.Uint32 // idle, running, closed: any goroutine

	// pulse is odd while callbacks run and even while the loop waits in the
	// kernel; it grows with every ask. Written by the loop, read by Post,
	// Stop and the watchdog.
	pulse atomic.Uint32
	stop  atomic.Bool // any goroutine
	dog   *watchdog   // of the Run under way

	done    chan struct{} // closed with the loop; any goroutine
	inbox   inbox         // any goroutine
	workers workers       // any goroutine
	fds     atomic.Int32  // descriptors watched; written by the loop, read by Group

	// Loop goroutine only from here.
	lanes    [lanes]lane
	serving  *lane // the one that runs a batch
	wheel    *wheel.Wheel
	due      bool // some timer may be due at now
	now      time.Duration
	watches  watches
	events   []kernel.Event // of the last wait
	eventAt  int            // the next of them to dispatch
	eventEnd int
	steps    steps
	sinceAsk int             // callbacks since the kernel was asked
	askFirst bool            // a panic has kept the last turn from asking
	stepped  uint64          // callbacks when RunOnce or Poll began its turn
	ended    *atomic.Bool    // the context of the Run under way has ended
	failure  error           // why Run must return
	entered  goid.ThreadLock // of the owner when it began to run the loop
	onEntry  func()          // nil for most
	stats    Stats
	obs      observation
	locals   []local

	// While Close runs.
	owedAt    uint64 // where RunOwed goes on, in the Normal lane
	closeErrs []error
}

// States of a loop.
const (
	idle uint32 = iota
	running
	closed
)

// closedOwner is nobody's identity.
const closedOwner = 1

// New makes a loop.
func New(opts Options) (*Loop, error) {
	goid.Verify()
	k := opts.Kernel
	if k == nil {
		var err error
		if k, err = kernel.Open(opts.Backend); err != nil {
			return nil, &OpError{Op: "new", FD: noFD, Err: err}
		}
	}
	now := k.Mono()
	l := &Loop{
		k:      k,
		opts:   opts,
		wheel:  wheel.New(int64(now)),
		now:    now,
		events: make([]kernel.Event, eventBatch),
		done:   make(chan struct{}),
	}
	l.pulse.Store(1)
	l.workers.init(opts)
	l.opened()
	if w, ok := k.Poller.(kernel.Witness); ok {
		l.witness = w
		w.Attend(l.elsewhere, l.Owner)
	}
	return l, nil
}

// Close releases the loop. It is refused with ErrRunning while the loop runs,
// and with ErrClosed the second time. Watched descriptors stay open. Timers that
// have not fired are dropped. Callbacks and jobs that were accepted and will now
// never run are reported by a *LostError, which names them; tasks of package
// spindle that still wait are ended, and reported if they had to be forced. Close
// does not wait for a job at work.
//
// Afterwards Post and Close return ErrClosed, Stop and Cancel do nothing, and
// everything else panics.
func (l *Loop) Close() error {
	if !l.state.CompareAndSwap(idle, running) {
		if l.state.Load() == closed {
			return ErrClosed
		}
		return ErrRunning
	}
	l.own()
	l.failure = nil
	l.closeLocals()
	l.inbox.close()
	l.closeLocals() // what was posted meanwhile
	lost := l.lost()
	l.state.Store(closed)
	l.owner.Store(closedOwner)
	l.dropped()
	defer close(l.done)
	l.wheel = wheel.New(0)
	l.lanes = [lanes]lane{}
	l.watches = watches{}
	l.fds.Store(0)
	if lost != nil {
		l.closeErr(lost)
	}
	if err := l.k.Close(); err != nil {
		l.closeErr(&OpError{Op: "close", FD: noFD, Err: err})
	}
	return errors.Join(l.closeErrs...)
}

// Done is closed when the loop was closed: what was posted and has not run by
// then never will.
func (l *Loop) Done() <-chan struct{} { return l.done }

// Time is the loop's clock: it never goes back, and counts from some moment
// before the loop was made. CallAt takes it. It may be read from any goroutine.
func (l *Loop) Time() time.Duration { return l.k.Mono() }

// Kernel is the seam to the system, for the packages of this module.
func (l *Loop) Kernel() *kernel.Kernel { return l.k }

// Debug tells whether Options.Debug is set.
func (l *Loop) Debug() bool { return l.opts.Debug }

// Backend is the name of the poller in use.
func (l *Loop) Backend() string { return l.k.Name() }

// Owns tells whether the caller runs on the loop: in a callback of it, or in a
// coroutine that one resumed. It may be called from any goroutine.
func (l *Loop) Owns() bool { return l.owner.Load() == goid.Current() }

// Foreign tells whether the loop runs, and not on the calling goroutine: who
// calls then may not touch what belongs to the loop. It is the check of calls that
// only the loop may make, and costs next to nothing; where others may call as well,
// Owns is to be asked, which is never wrong about them.
func (l *Loop) Foreign() bool {
	owner := l.owner.Load()
	return owner > closedOwner && !goid.Here(owner)
}

// elsewhere is Foreign for who may be anybody.
func (l *Loop) elsewhere() bool {
	owner := l.owner.Load()
	return owner > closedOwner && owner != goid.Current()
}

// Running tells whether the loop runs now. It may be called from any goroutine.
func (l *Loop) Running() bool { return l.state.Load() == running }

// only panics unless the caller may use the loop now.
func (l *Loop) only(op string) {
	if owner := l.owner.Load(); owner != 0 && (owner == closedOwner || !goid.Here(owner)) {
		l.refuse(op)
	}
}

func (l *Loop) refuse(op string) {
	if l.state.Load() == closed {
		panic("loop: " + op + " on a closed loop")
	}
	panic("loop: " + op + " called from a goroutine that is not the loop's; use Post")
}
