// Package loop is a single-threaded event loop: callbacks that run one after another on
// one goroutine, as soon as possible (CallSoon), at a given time (CallLater), or when a
// file descriptor is ready (AddReader, Watch). It is the callback model of asyncio, libuv
// and Node, with their names, in Go.
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
// While a loop runs, it belongs to one goroutine, which Run starts. Every method is for
// callbacks on that loop, except Post, Stop and Group.Go, which any goroutine may call. A
// call from the wrong goroutine panics with a message that says so. While the loop does
// not run, one goroutine at a time may prepare it, or step it with RunOnce or Poll.
//
// State that only callbacks of one loop use needs no lock. In return no callback may
// block, because everything else on the loop waits for it. Blocking and long work belongs
// on goroutines: use Offload.
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
// Each phase processes what is present when it begins, so a callback that always
// schedules itself again does not stop the others. A turn runs at most 61 timers and 61
// ready callbacks. The kernel is polled when nothing is ready, and otherwise after 61
// callbacks: after fewer if they take long, after up to 244 if they take next to no time. It
// is not polled between any two of them, because polling costs as much as running twenty.
//
// # Order
//
// Callbacks of one lane run in the order in which they were scheduled. Timers run in the
// order of their deadlines, to the nanosecond, equal ones in the order in which they were
// set, and never early. Callbacks posted by one goroutine run in the order of its posts,
// in the Normal lane.
//
// # Handles
//
// Handle, Timer, Watch and Job are values. Cancelling needs no search. A handle of a
// callback that has run, or was cancelled, does nothing, even when its place has been used
// again.
//
// Memory that a peak of timers, descriptors or jobs took is kept for the next peak; that
// of a peak of callbacks is freed when the loop next waits.
package loop

import (
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/loop/internal/wheel"
)

// eventBatch is the number of fd events that one wait can return.
const eventBatch = 256

// Options configure a loop. The zero value is a good loop.
type Options struct {
	// Name names the loop where package inspect shows it. "" means "loop" and a number.
	Name string

	// Backend names the poller: "epoll", "kqueue" or "poll"; "" or "auto" selects
	// the best one of the system.
	Backend string

	// OnPanic is called on the loop after a callback panicked or called
	// runtime.Goexit. If it returns nil the loop continues. Otherwise the loop stops
	// and Run returns that error. Nil stops the loop with the *PanicError.
	OnPanic func(*PanicError) error

	// Watchdog is how long a turn of Run may take before OnBlocked is called. Zero
	// means 100 ms; negative means no watchdog.
	Watchdog time.Duration

	// OnBlocked is called with a report of a turn that does not end, while it does
	// not end, on another goroutine. Blocked.Starved distinguishes a loop that gets
	// too little CPU. Nil prints the report to standard error.
	OnBlocked func(Blocked)

	// OnTurn is called on the loop at the end of each turn, except for turns that a
	// panic ended early. Nil costs nothing.
	OnTurn func(Turn)

	// Workers is the most goroutines that Offload uses. Zero or less means 32.
	Workers int

	// MaxOffloads is how many jobs may wait for a worker. Offload refuses more with
	// ErrBusy. Zero or less means 65,536.
	MaxOffloads int

	// Debug makes use of borrowed data after its time visible. The entries of a
	// slice that Pending returned panic when they are run after the next Poll. Bytes
	// that packages transport and stream lend are overwritten when the loan ends.
	Debug bool

	kernel *kernel.Kernel // of Internal().WithKernel; nil for the real one
}

// Loop is an event loop. Make one with New.
type Loop struct {
	k       *kernel.Kernel // set by New
	opts    Options        // set by New
	id      uint64         // set by New
	witness kernel.Witness // set by New; nil on a real kernel
	done    chan struct{}  // closed with the loop

	// Any goroutine.
	owner   identity      // the goroutine that may use the loop; see owner.go
	state   atomic.Uint32 // idle, running or closed
	stop    atomic.Bool
	pulse   atomic.Uint32 // odd while callbacks run, even while the loop waits; grows with every poll; the loop writes it
	inbox   inbox
	ownPool workerPool // the loop's own workers
	pools   pools
	blocked blockedTurns
	task    atomic.Pointer[func() string] // describes the running task
	host    atomic.Pointer[probe.Host]    // nil for most

	// Loop goroutine only from here.
	lanes   [priorities]lane
	serving *lane // the lane with the running batch
	wheel   *wheel.Wheel
	watches watches
	halves  []*halves // unused ones
	events  events    // of the last wait
	steps   steps
	goWait  goWait

	now       time.Duration // when the kernel was last polled; also read by LastPoll
	timersDue bool          // a timer may be due now
	sincePoll int           // callbacks since the kernel was polled
	pollAfter int           // callbacks after which a poll is due
	pollFirst bool          // a panic ended the last turn before it polled
	freeWaits int8          // see FreeWaits
	stepped   uint64        // callbacks when RunOnce or Poll began its turn

	closing  bool            // Close was called
	inRun    bool            // in Run, which waits when there is nothing to do
	ended    *atomic.Bool    // the context of the current Run has ended
	failure  error           // the reason why Run must return
	watchdog *watchdog       // of the current Run
	entered  goid.ThreadLock // of the owner when it began to run the loop
	onEntry  func()          // nil for most

	stats       Stats
	lags        probe.Lags    // how late timers were
	phases      *probe.Phases // nil unless an inspector is attached
	observation observation

	// scheduler is package coro's, nil before the first task. It is not among the values,
	// because every Read and Write of a connection looks it up.
	scheduler any
	values    []value // of other packages; see internal/perloop

	// While the loop is closed.
	atCloseNext uint64 // where runAtClose continues, in the Normal lane
	closeErrs   []error
}

// New makes a loop.
func New(opts Options) (*Loop, error) {
	goid.Verify()
	k := opts.kernel
	if k == nil {
		var err error
		if k, err = kernel.Open(opts.Backend); err != nil {
			return nil, opError("new", noFD, err)
		}
	}
	if opts.Workers <= 0 {
		opts.Workers = 32
	}
	if opts.MaxOffloads <= 0 {
		opts.MaxOffloads = 1 << 16
	}
	l := &Loop{
		k: k, opts: opts, done: make(chan struct{}),
		events: events{all: make([]kernel.Event, eventBatch)}, freeWaits: maxFreeWaits,
		now: k.Mono(),
	}
	l.wheel = wheel.New(int64(l.now))
	l.ownPool.limit, l.ownPool.most = opts.Workers, opts.MaxOffloads
	l.pulse.Store(1)
	l.register()
	if w, ok := k.Poller.(kernel.Witness); ok {
		l.witness = w
		w.Attend(l.runsElsewhere, l.runner)
	}
	return l, nil
}

// Done returns a channel that is closed when the loop is closed. Posted callbacks that
// have not run by then never will.
func (l *Loop) Done() <-chan struct{} { return l.done }

// Time returns the loop's clock, for CallAt. It never goes back, and counts from some
// moment before the loop was made. Any goroutine may call it.
func (l *Loop) Time() time.Duration { return l.k.Mono() }

// Owns reports whether the caller runs on the loop: in a callback, or in a task that a
// callback resumed. Any goroutine may call it.
func (l *Loop) Owns() bool { return l.owner.Load() == goid.Current() }
