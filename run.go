package spindle

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/tracing"
)

// Options configure a run: Options{Grace: time.Minute}.Run(ctx, fn). The zero Options are those
// of the functions Run, RunOn and RunGroup.
type Options struct {
	// On is an existing loop to run on, such as one of a Group. It must not be running,
	// and stays open. Several runs, one after the other, may use it, as with asyncio's
	// Runner. Nil makes a loop for the run.
	On *loop.Loop

	// Loop configures the loop that Run makes.
	Loop loop.Options

	// Grace is how long tasks may take to clean up after the run was cancelled.
	// Tasks that take longer are made to exit (their deferred calls run), and
	// reported by ErrStragglers. A task inside the function Grace gets the time
	// that it asked for, and Options.Grace after it. Zero means 5 seconds.
	Grace time.Duration

	// Trace makes tasks visible to profilers: each task runs with the pprof label
	// "task" and in a runtime/trace region with its name, and the tree shows where
	// it was started. It costs half a microsecond for each task.
	Trace bool

	// ErrorLog is the logger for errors that no call returns: a task ignores its
	// cancellation, or a task of Spawn fails and its future is never awaited. Nil
	// means slog.Default().
	ErrorLog *slog.Logger
}

// Run makes a loop and runs fn on it as a task. It returns when fn and all tasks that it
// started have ended. If ctx ends, all tasks are cancelled, and Run returns the cause of
// ctx, or nil if fn returns nil nevertheless. It is asyncio.run and trio.run.
//
// A panic in a task cancels the other tasks, and when they have ended Run panics with
// a *PanicError. If that is not recovered, the program ends and prints the stack of the
// task. If a task calls runtime.Goexit, as testing.T.FailNow does, so does Run.
//
// A panic in a callback of the loop ends the run too, and Run returns it with
// the tree of the tasks, unless Options.Loop.OnPanic handles it. So does a call of Stop of the loop
// before all tasks have ended; they are cancelled then. Work that was accepted and never
// ran fails the run with an error that is loop.ErrLost and names it.
//
// Run is for goroutines that run no loop. In a task it would block the loop until it
// returns, so it panics if ctx comes from a task of the calling goroutine. Open a nursery
// there.
func Run(ctx context.Context, fn func(context.Context) error) error {
	return Options{}.Run(ctx, fn)
}

// Run is the function Run with options.
func (o Options) Run(ctx context.Context, fn func(context.Context) error) (err error) {
	if o.On != nil {
		return runOnLoop(ctx, o.On, o, fn)
	}
	l, err := loop.New(o.Loop)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		lost := l.Close()
		if lost == nil {
			return
		}
		switch v := recover().(type) {
		case nil:
			err = errors.Join(err, lost)
			if !returned {
				o.logGoexit(lost)
			}
		case *PanicError:
			withError(v, lost).Repanic()
		default:
			panic(v)
		}
	}()
	err = runOnLoop(ctx, l, o, fn)
	returned = true
	return err
}

// logGoexit logs the error of a run that does not return.
func (o *Options) logGoexit(err error) {
	o.log().Error("spindle: the run failed, but a task called runtime.Goexit, so Run does not return", "error", err)
}

// errStopped is the error of a Run that Loop.Stop was to end.
var errStopped = errors.New("spindle: the loop was stopped before all tasks had ended; cancel a scope instead")

// runOnLoop runs fn as Run does, on a loop that is not running.
func runOnLoop(ctx context.Context, l *loop.Loop, o Options, fn func(context.Context) error) error {
	if sc := scopeOf(ctx); sc != nil && sc.s.l.Owns() {
		panic("spindle: Run called in a task would block the loop of that task; open a nursery")
	}
	run := newRun(ctx, l, o)
	// The loop runs on a goroutine of its own. Its coroutines must not end on the
	// caller's, which may be locked to its thread.
	defer coro.OnGoroutine(func() { run.s.leave(run) })
	run.root.done = l.Stop
	run.start(fn, codeOf(fn))
	defer run.follow(ctx)()
	err := l.Run(context.Background())
	if err == nil && run.root.running > 0 {
		err = errStopped
	}
	if err != nil {
		failure := run.failure(err)
		run.clear(err)
		if rest := run.outcome(ctx); rest != nil {
			return errors.Join(failure, rest)
		}
		return failure
	}
	return run.outcome(ctx)
}

// failure returns the error of a run after its loop has failed with err.
func (r *run) failure(err error) error {
	failure := &loopError{err, r.tree()}
	if killed := (interface{ Killed() bool })(nil); !errors.As(err, &killed) {
		failure.tree.locate()
	}
	return failure
}

// outcome is result for the caller of Run. If a task has called runtime.Goexit, outcome
// calls it too, as it would if the caller had run the code itself: testing.T.FailNow in a
// task ends the test. In a simulated run it panics, and package sim decides.
func (r *run) outcome(ctx context.Context) error {
	if p := r.root.fault; p == nil || p.Value != loop.ErrGoexit || !r.l.Internal().Kernel().Real() {
		return r.result(ctx)
	}
	fault, err := r.end(ctx)
	if err = errors.Join(fault.Also, err); err != nil {
		r.o.logGoexit(err)
	}
	runtime.Goexit()
	return nil
}

// newRun prepares a run on a loop.
func newRun(ctx context.Context, l *loop.Loop, o Options) *run {
	if ctx == nil {
		panic("spindle: " + calledName("Run") + ": nil context")
	}
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	r := &run{l: l, s: schedOf(l), o: o}
	if o.Trace {
		r.origins = make(origins)
	}
	r.tracer = tracerIn(ctx)
	r.root = &Nursery{s: r.s, scope: r.open(ctx)}
	r.s.runs = append(r.s.runs, r)
	return r
}

// start starts fn as the run's first task. When it returns, the run is cancelled. It is the
// body of the root nursery, so it does not count against that nursery's limit. The address of
// its code names the task.
func (r *run) start(fn func(context.Context) error, code uintptr) {
	if ctx := r.root.scope.values; ctx.Err() != nil {
		r.root.scope.cancelWith(ctx)
	}
	r.root.start(&TaskOptions{Name: "main", code: code, Values: coro.Helper{}}, func(ctx context.Context) error {
		err := fn(ctx)
		r.cancel(context.Canceled)
		return err
	})
}

// follow cancels the run when ctx ends, until unfollow is called. It does nothing once the
// run has ended.
func (r *run) follow(ctx context.Context) (unfollow func() bool) {
	return r.l.Internal().AfterFunc(ctx, func() { r.root.scope.cancelWith(ctx) })
}

// clear ends the tasks of a loop that has failed. They are cancelled, and those that do
// not end are made to exit after Grace, or at once if the loop fails again.
func (r *run) clear(err error) {
	r.root.scope.Cancel(err)
	for range 2 {
		for r.root.running > 0 {
			if r.l.Run(context.Background()) != nil {
				break
			}
		}
		r.forceExits()
	}
}

// RootNursery returns the nursery of the run that ctx belongs to. The run does not wait
// for tasks that are started in it: when the function that was given to Run returns, they
// are cancelled. If one fails, the run fails.
func RootNursery(ctx context.Context) *Nursery {
	scope := scopeOf(ctx)
	if scope == nil {
		panic(notInTask("RootNursery"))
	}
	return scope.run.root
}

// log returns the run's logger.
func (o *Options) log() *slog.Logger { return cmp.Or(o.ErrorLog, slog.Default()) }

// run is a call of Run, RunOn or NurseryOn that has not ended.
type run struct {
	l          *loop.Loop
	s          *sched
	o          Options
	root       *Nursery
	stragglers []string
	unawaited  map[*unawaited]uint64 // failures that no code has read, with their order
	failures   uint64
	origins    origins        // nil without Options.Trace
	tracer     tracing.Tracer // nil without WithTracer
	service    bool           // made by NurseryOn

	cancelledAt time.Duration // on the loop's clock
	exits       loop.Timer    // calls exitLate
	exitsAt     time.Duration
}

// cancel cancels all tasks of the run.
func (r *run) cancel(cause error) { r.root.scope.Cancel(cause) }

// result ends the run and returns its error. It panics if a task did.
func (r *run) result(ctx context.Context) error {
	fault, err := r.end(ctx)
	if fault != nil {
		withError(fault, err).Repanic()
	}
	return err
}

// end ends the run. It returns the panic of a task, if there was one, and all other errors.
func (r *run) end(ctx context.Context) (fault *PanicError, err error) {
	r.exits.Cancel() // the loop may go on to be used
	r.root.closed = true
	fault, err = r.root.outcome()
	if err == nil && fault == nil && r.root.scope.caught {
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case r.root.scope.canceled.Cause == loop.ErrClosed:
			err = loop.ErrClosed
		}
	}
	r.root.scope.close()
	r.reportUnawaited()
	if len(r.stragglers) > 0 {
		err = errors.Join(err, madeToExit(r.stragglers))
	}
	return fault, err
}

// RunOn starts fn as a task on a loop that other code runs, so that callback code can
// continue as a task. Call it from a callback of the loop, or before the loop runs. When fn
// and all tasks that it started have ended, the loop calls done with the error that Run
// would return; done may be nil. If ctx ends, all tasks are cancelled. If the loop is
// stopped before that, the tasks stay where they wait. Closing the loop cancels them, and
// done is called with loop.ErrClosed.
func RunOn(ctx context.Context, l *loop.Loop, fn func(context.Context) error, done func(error)) {
	Options{}.RunOn(ctx, l, fn, done)
}

// RunOn is the function RunOn with options. It panics if Options.On is set, and ignores
// Options.Loop.
func (o Options) RunOn(ctx context.Context, l *loop.Loop, fn func(context.Context) error, done func(error)) {
	if l.Internal().Foreign() {
		panic("spindle: " + calledName("RunOn") + " called from a goroutine that is not the loop's; Post a function that calls it")
	}
	if o.On != nil {
		panic("spindle: RunOn with Options.On; the loop is a parameter")
	}
	run := newRun(ctx, l, o)
	unfollow := run.follow(ctx)
	run.root.done = func() {
		unfollow()
		run.endSoon(ctx, done)
	}
	run.start(fn, codeOf(fn))
}

// NurseryOn opens a nursery on a loop that other code runs, for callback code that starts
// tasks from time to time. Call it from a callback of the loop, or before the loop runs.
//
// Calling end cancels the tasks. When the last one has ended, the loop calls done with the
// error that Run would return; a panic is an error too. Call end once, on the loop. The
// tasks look values up in ctx; they are not cancelled when ctx ends.
func NurseryOn(ctx context.Context, l *loop.Loop) (n *Nursery, end func(done func(error))) {
	if l.Internal().Foreign() {
		panic("spindle: NurseryOn called from a goroutine that is not the loop's; Post a function that calls it")
	}
	ctx = context.WithoutCancel(ctx)
	run := newRun(ctx, l, Options{})
	run.service = true
	run.root.running = 1
	return run.root, func(done func(error)) {
		run.s.only("the end function of NurseryOn")
		run.root.done = func() {
			run.root.fault = nil // it is among the errors too
			run.endSoon(ctx, done)
		}
		run.cancel(context.Canceled)
		if run.root.running--; run.root.running == 0 {
			run.root.closed = true
			run.root.done()
		}
	}
}

// endSoon ends the run in a coming turn. The last task is still on its coroutine, which
// has to end too.
func (r *run) endSoon(ctx context.Context, done func(error)) {
	r.l.Internal().CallSoon(atclose.Run, func() {
		r.s.leave(r)
		err := r.result(ctx)
		if done != nil {
			done(err)
		}
	})
}
