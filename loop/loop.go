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

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/internal/wheel"
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

	kernel *kernel.Kernel // of WithKernel; nil for the real one
}

// Loop is an event loop. Make one with New.
type Loop struct {
	core loopcore.Loop // first, so that Internal costs nothing

	k    *kernel.Kernel // set by New
	opts Options        // set by New

	stop atomic.Bool // any goroutine

	// Loop goroutine only from here.
	watchdog    *watchdog // of the current Run
	wheel       *wheel.Wheel
	freeHalves  []*halves
	events      events // of the last wait
	steps       steps
	pollFirst   bool         // a panic ended the last turn before it polled
	stepped     uint64       // callbacks when RunOnce or Poll began its turn
	ended       *atomic.Bool // the context of the current Run has ended
	stats       Stats
	observation observation
}

// New makes a loop.
func New(opts Options) (*Loop, error) {
	k := opts.kernel
	if k == nil {
		var err error
		if k, err = kernel.Open(opts.Backend); err != nil {
			return nil, &OpError{Op: "new", FD: noFD, Err: err}
		}
	}
	l := &Loop{k: k, opts: opts, events: events{all: make([]kernel.Event, eventBatch)}}
	config := loopcore.Config{
		Outer:      l,
		Name:       opts.Name,
		Kernel:     k,
		Debug:      opts.Debug,
		Observed:   opts.OnTurn != nil,
		Workers:    opts.Workers,
		MaxJobs:    opts.MaxOffloads,
		Caught:     l.caught,
		PanicError: newPanicError,
	}
	if k.Real() {
		config.PoolFull = logFull
	}
	if config.Workers <= 0 {
		config.Workers = 32
	}
	if config.MaxJobs <= 0 {
		config.MaxJobs = 1 << 16
	}
	l.core.Init(config)
	l.wheel = wheel.New(int64(l.core.TurnTime()))
	return l, nil
}

// Close releases the loop. It fails with ErrRunning while the loop runs, and with
// ErrClosed the second time. Watched descriptors stay open. Timers that have not fired are
// dropped. Callbacks and jobs that were accepted and will never run are reported by a
// *LostError, which names them. Tasks of package spindle that still wait are ended, and
// reported if they had to be forced. Close does not wait for a job that is running.
//
// Afterwards Post and Close return ErrClosed, Stop and Cancel do nothing, and everything
// else panics.
func (l *Loop) Close() (err error) {
	if !l.core.TryEnter() {
		if l.core.Closed() {
			return ErrClosed
		}
		return ErrRunning
	}
	defer func() { err = l.endClose() }() // even if a callback calls runtime.Goexit
	l.beginClose()
	return nil
}

// beginClose ends what uses the loop. A callback that calls runtime.Goexit ends the
// goroutine, but not before the others were called.
func (l *Loop) beginClose() {
	exited := true
	defer func() {
		if exited {
			l.core.CloseError(l.core.Failure)
			l.beginClose()
		}
	}()
	l.core.BeginClose()
	exited = false
}

// endClose releases what the loop has, and returns the errors of Close.
func (l *Loop) endClose() error {
	lost := l.lost()
	l.core.MarkClosed()
	l.core.EndGoWait()
	l.wheel = wheel.New(0)
	if lost != nil {
		l.core.CloseError(lost)
	}
	if err := l.k.Close(); err != nil {
		l.core.CloseError(&OpError{Op: "close", FD: noFD, Err: err})
	}
	return l.core.EndClose()
}

// Done returns a channel that is closed when the loop is closed. Posted callbacks that
// have not run by then never will.
func (l *Loop) Done() <-chan struct{} { return l.core.Done() }

// Time returns the loop's clock, for CallAt. It never goes back, and counts from some
// moment before the loop was made. Any goroutine may call it.
func (l *Loop) Time() time.Duration { return l.k.Mono() }

// Backend returns the name of the poller.
func (l *Loop) Backend() string { return l.k.Name() }

// Owns reports whether the caller runs on the loop: in a callback, or in a task that a
// callback resumed. Any goroutine may call it.
func (l *Loop) Owns() bool { return l.core.Owns() }
