package spindle

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/loop"
)

// Options configure Run.
type Options struct {
	// Loop configures the loop that Run makes.
	Loop loop.Options

	// Grace is how long tasks may take to clean up once everything is
	// cancelled; who takes longer is made to exit (its deferred calls run)
	// and is reported. Zero means 5 seconds.
	Grace time.Duration

	// Trace makes tasks visible to profilers: each runs under the pprof label
	// "task" and in a runtime/trace region with its name, and the tree tells
	// where it was started. It costs half a microsecond for each task.
	Trace bool

	// ErrorLog is the logger for what concerns no caller: a task that ignores its
	// cancellation, and one that Spawn started and that failed without its
	// future being awaited. Nil means slog.Default().
	ErrorLog *slog.Logger
}

// Run makes a loop and runs fn on it as a task; it returns when fn and all
// tasks it has started have ended. If ctx ends, everything is cancelled and Run
// returns the context's cause, or nil if fn returns nil all the same. It is
// asyncio.run and trio.run.
//
// A panic in a task cancels the other tasks, and when they have ended Run panics with
// a *PanicError. If that is not recovered, the program ends and prints the stack of the
// task. A panic in a callback of the loop ends the run too, and Run returns it, as a
// *LoopError (unless Options.Loop.OnPanic takes it). Work that was accepted and never
// ran fails the run with a *loop.LostError, which names it.
//
// It is for goroutines. In a task it would hold up the task's loop until it returns;
// if ctx tells, it panics. There, open a nursery.
func Run(ctx context.Context, fn func(context.Context) error) error {
	return RunWith(ctx, Options{}, fn)
}

// RunWith is Run with options.
func RunWith(ctx context.Context, o Options, fn func(context.Context) error) (err error) {
	r, err := NewRunner(o)
	if err != nil {
		return err
	}
	defer func() {
		lost := r.Close()
		if lost == nil {
			return
		}
		switch v := recover().(type) {
		case nil:
			err = errors.Join(err, lost)
		case *PanicError:
			besides(v, lost).Repanic()
		default:
			panic(v)
		}
	}()
	return r.Run(ctx, fn)
}

// Runner runs several functions one after the other on one loop, which is there
// before, between and after them: asyncio's Runner. NewRunner and RunnerOn make one.
type Runner struct {
	l *loop.Loop
	o Options
}

// NewRunner makes a loop and a Runner for it.
func NewRunner(o Options) (*Runner, error) {
	l, err := loop.New(o.Loop)
	if err != nil {
		return nil, err
	}
	return RunnerOn(l, o), nil
}

// RunnerOn makes a Runner for a loop that is there already, such as a Group's.
func RunnerOn(l *loop.Loop, o Options) *Runner { return &Runner{l, o} }

// Loop is the Runner's loop.
func (r *Runner) Loop() *loop.Loop { return r.l }

// Close closes the loop. Its error tells of callbacks that will never run.
func (r *Runner) Close() error { return r.l.Close() }

// Run is Run on the Runner's loop, which must not be running.
func (r *Runner) Run(ctx context.Context, fn func(context.Context) error) error {
	if sc := scopeOf(ctx); sc != nil && sc.s.l.Owns() {
		panic("spindle: Run called on a loop that would stand still until it returns; open a nursery")
	}
	run := newRun(ctx, r.l, r.o)
	// The loop has run on a goroutine of its own. Its coroutines must not end on
	// the caller's, who may have locked the thread.
	defer coro.OnGoroutine(func() { run.s.leave(run) })
	run.root.done = r.l.Stop
	run.start(fn)
	defer run.follow(ctx)()
	if err := r.l.Run(context.Background()); err != nil {
		failure := &LoopError{Err: err, Tree: run.tree()}
		if killed := (interface{ Killed() bool })(nil); !errors.As(err, &killed) {
			failure.Tree.locate()
		}
		run.clear(err)
		if rest := run.outcome(ctx); rest != nil {
			return errors.Join(failure, rest)
		}
		return failure
	}
	return run.outcome(ctx)
}

// outcome is the result for the caller of Run. A task that has ended its test (by
// t.FailNow or t.SkipNow, which are a Goexit) ends the caller, as it would had he
// run the code himself. Any other Goexit is no end that somebody has chosen.
func (r *run) outcome(ctx context.Context) error {
	if p := r.root.fault; p != nil && p.Value == loop.ErrGoexit && endsTest(p.Stack) {
		r.root.fault = nil
		r.result(ctx)
		runtime.Goexit()
	}
	return r.result(ctx)
}

func endsTest(stack []byte) bool {
	return bytes.Contains(stack, []byte("\ntesting.(*common).FailNow(")) ||
		bytes.Contains(stack, []byte("\ntesting.(*common).SkipNow("))
}

// RunOn starts fn as a task on a loop that somebody else runs, for callback code
// that wants to go on in straight lines. It is for callbacks of the loop, or for
// before it runs. When fn and all tasks it has started have ended, done is called
// on the loop with what Run would return; nil does without. If ctx ends,
// everything is cancelled. A loop that is stopped before leaves the tasks where
// they wait; Close of the loop cancels them, and done is called with loop.ErrClosed.
func RunOn(ctx context.Context, l *loop.Loop, fn func(context.Context) error, done func(error)) {
	if l.Foreign() {
		panic("spindle: RunOn called from a goroutine that is not the loop's; Post a function that calls it")
	}
	run := newRun(ctx, l, Options{})
	unfollow := run.follow(ctx)
	run.root.done = func() {
		unfollow()
		run.endSoon(ctx, done)
	}
	run.start(fn)
}

// NurseryOn opens a nursery on a loop that somebody else runs, for callback code that
// starts tasks now and then: between them nothing waits. It is for callbacks of the
// loop, or for before it runs. End cancels the tasks and, once the last has ended,
// calls done on the loop with what Run would return, and a panic as an error; it is
// to be called once, on the loop. Values are looked up in ctx, whose end cancels
// nothing.
func NurseryOn(ctx context.Context, l *loop.Loop) (n *Nursery, end func(done func(error))) {
	if l.Foreign() {
		panic("spindle: NurseryOn called from a goroutine that is not the loop's; Post a function that calls it")
	}
	ctx = context.WithoutCancel(ctx)
	run := newRun(ctx, l, Options{})
	run.service = true
	run.root.running = 1
	return run.root, func(done func(error)) {
		run.s.only("the end of a nursery")
		run.root.done = func() {
			run.root.fault = nil // it is among the errors too, and there is nobody to panic
			run.endSoon(ctx, done)
		}
		run.cancel(context.Canceled)
		if run.root.running--; run.root.running == 0 {
			run.root.closed = true
			run.root.done()
		}
	}
}

// endSoon ends the run in a coming turn: the last task is still on its coroutine,
// which is to end too.
func (r *run) endSoon(ctx context.Context, done func(error)) {
	r.l.CallSoonWith(loop.RunAtClose, func() {
		r.s.leave(r)
		err := r.result(ctx)
		if done != nil {
			done(err)
		}
	})
}

// newRun prepares a run on a loop.
func newRun(ctx context.Context, l *loop.Loop, o Options) *run {
	if o.Grace == 0 {
		o.Grace = 5 * time.Second
	}
	r := &run{l: l, s: schedOf(l), o: o}
	if o.Trace {
		r.traced = make(traced)
	}
	r.root = &Nursery{s: r.s, scope: r.open(ctx)}
	r.s.runs = append(r.s.runs, r)
	return r
}

// start starts fn as the run's first task, with whose end everything is to end.
func (r *run) start(fn func(context.Context) error) {
	if ctx := r.root.scope.values; ctx.Err() != nil {
		r.root.scope.cancelWith(ctx)
	}
	r.root.start(TaskOptions{Name: "main", code: codeOf(fn)}, func(ctx context.Context) error {
		err := fn(ctx)
		r.cancel(context.Canceled)
		return err
	})
}

// follow cancels the run with ctx, until unfollow is called. A run that has ended
// takes no notice of a cancellation that comes late.
func (r *run) follow(ctx context.Context) (unfollow func() bool) {
	return r.l.Kernel().AfterFunc(ctx, func() {
		_ = r.l.PostWith(loop.DropAtClose, func() { r.root.scope.cancelWith(ctx) })
	})
}

// LoopError tells that the loop under the tasks failed, with the tasks as they
// were.
type LoopError struct {
	Err  error
	Tree Tree
}

func (e *LoopError) Error() string {
	text := e.Err.Error()
	if p, ok := e.Err.(*PanicError); ok {
		text += "\n\n" + string(p.Stack)
	}
	return text + "\n" + e.Tree.String()
}

// Unwrap returns the loop's error.
func (e *LoopError) Unwrap() error { return e.Err }

// clear ends what a loop that has failed leaves behind: it is cancelled, and if that
// is not enough, made to exit after Grace, or at once if the loop fails again.
func (r *run) clear(err error) {
	r.root.scope.Cancel(err)
	for range 2 {
		for r.root.running > 0 {
			if r.l.Run(context.Background()) != nil {
				break
			}
		}
		r.doom()
	}
}

// RootNursery returns the nursery of the run that ctx belongs to. The run does not wait
// for tasks that are started in it: when the function that was given to Run returns, they
// are cancelled. If one fails, the run fails.
func RootNursery(ctx context.Context) *Nursery {
	scope := scopeOf(ctx)
	if scope == nil {
		panic(foreign("RootNursery"))
	}
	return scope.run.root
}

// log returns the run's logger.
func (r *run) log() *slog.Logger { return cmp.Or(r.o.ErrorLog, slog.Default()) }

// run is a Run under way.
type run struct {
	l          *loop.Loop
	s          *sched
	o          Options
	root       *Nursery
	grace      loop.Timer // at its end the stragglers are doomed
	stragglers []string
	unawaited  map[*unawaited]uint64 // failures of spawned tasks, in which order; see there
	failures   uint64
	traced     traced // nil if tasks are not
	service    bool   // it is that of NurseryOn
}

// cancel cancels everything.
func (r *run) cancel(cause error) { r.root.scope.Cancel(cause) }

// cancelled is told that everything was, by whomever, and sees to it that everything
// ends.
func (r *run) cancelled() { r.grace = r.l.CallLater(r.o.Grace, r.doom) }

// doom makes the tasks that are left exit at their next wait.
func (r *run) doom() {
	for _, t := range r.tasks() {
		if !t.mustExit {
			r.stragglers = append(r.stragglers, t.Name())
		}
		t.mustExit = true
		t.nursery.liftLimit()
		t.cancelWait(r.root.scope.canceled)
	}
}

func (r *run) result(ctx context.Context) error {
	r.grace.Cancel() // the loop may go on to be used
	r.root.closed = true
	fault, err := r.root.outcome()
	if err == nil && fault == nil && r.root.scope.caught {
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case r.root.scope.canceled.Cause == loop.ErrClosed:
			err = loop.ErrClosed
		}
	}
	r.root.scope.close()
	r.reportAll()
	if len(r.stragglers) > 0 {
		err = errors.Join(err, &StragglerError{r.stragglers})
	}
	if fault != nil {
		besides(fault, err).Repanic()
	}
	return err
}

// StragglerError reports tasks that ignored their cancellation and had to be ended.
type StragglerError struct{ Tasks []string }

func (e *StragglerError) Error() string {
	return fmt.Sprintf("spindle: %d tasks did not end when cancelled: %q", len(e.Tasks), e.Tasks)
}
