package spindle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spindleloop/spindle/internal/goid"
)

// Future is a result that will be available later. Any number of tasks may await it. It
// is for tasks and callbacks of one loop.
type Future[T any] struct {
	s     *sched
	task  *Task  // has the result; nil if NewFuture made the future
	scope *Scope // of the task
	done  bool
	value T
	err   error
	lot   Lot
	then  callbacks

	failure *unawaited // the task's failure, until it is read; nil nearly always
}

var (
	errNotDone      = errors.New("spindle: future is not done")
	errNotStarted   = errors.New("spindle: task ended before it had started")
	errTaskPanicked = errors.New("spindle: the task panicked")
)

// NewFuture makes a future that Resolve or Reject completes.
func NewFuture[T any](ctx context.Context) *Future[T] {
	scope := scopeOf(ctx)
	if scope == nil {
		panic(notInTask("NewFuture"))
	}
	return &Future[T]{s: scope.s}
}

// Spawn starts fn as a task of the nursery and returns a future for its result. If the
// task fails, the error is that of the future, and the nursery goes on: the code that
// awaits the future decides. A panic fails both.
//
// A failure that no code reads, by Await, Result or Err, is logged to Options.ErrorLog
// with the name of the task and the place of the call of Spawn: when the future is
// collected, and at the latest when the run ends. A cancellation is no failure.
//
//go:noinline
func Spawn[T any](n *Nursery, fn func(context.Context) (T, error)) *Future[T] {
	return spawn(n, TaskOptions{}, fn, goid.CallerPC())
}

// SpawnWith is Spawn with options.
//
//go:noinline
func SpawnWith[T any](n *Nursery, o TaskOptions, fn func(context.Context) (T, error)) *Future[T] {
	o.check("SpawnWith")
	return spawn(n, o, fn, goid.CallerPC())
}

// spawn starts the task of a future. Spawned is the program counter of the call of Spawn or
// SpawnWith. They are not inlined, because goid.CallerPC needs their frames.
func spawn[T any](n *Nursery, o TaskOptions, fn func(context.Context) (T, error), spawned uintptr) *Future[T] {
	if fn == nil {
		panic("spindle: Spawn with a nil function")
	}
	n.s.only("Spawn")
	f := &Future[T]{s: n.s}
	o.own, o.code = n.scope.open(cmp.Or[context.Context](o.Values, n.scope)), codeOf(fn)
	f.scope = o.own
	if n.holds() {
		o.cancelled = func(err error) { f.Reject(err) }
	}
	f.task = n.start(&o, func(context.Context) error {
		f.task = f.s.running() // an eager task runs before start returns
		returned := false
		defer func() {
			if !returned {
				f.complete(f.value, errTaskPanicked)
			}
		}()
		value, err := fn(f.scope)
		returned = true
		if f.complete(value, err) && err != nil {
			f.failed(err, spawned)
		}
		return nil
	})
	return f
}

// Resolve completes the future with a value. It reports false if the future was done.
func (f *Future[T]) Resolve(value T) bool { return f.complete(value, nil) }

// Reject completes the future with an error. It reports false if the future was done.
func (f *Future[T]) Reject(err error) bool {
	var zero T
	return f.complete(zero, err)
}

func (f *Future[T]) complete(value T, err error) bool {
	f.s.only("completing a Future")
	if f.done {
		return false
	}
	f.done, f.value, f.err = true, value, err
	f.then.schedule(f.s.l)
	f.lot.Wake(1 << 30)
	return true
}

// Await waits for the result. It fails at once if the tasks would wait for
// each other for ever.
func (f *Future[T]) Await(ctx context.Context) (T, error) {
	var zero T
	if f.done {
		if err := Checkpoint(ctx); err != nil {
			return zero, err
		}
	} else if err := f.lot.await(ctx, f.task); err != nil {
		return zero, err
	}
	f.read()
	return f.value, f.err
}

// await waits in the lot for the end of target, which may be nil. It fails if tasks await
// each other in a circle.
func (l *Lot) await(ctx context.Context, target *Task) error {
	if target == nil {
		return l.Wait(ctx, "Future")
	}
	t, _ := caller(ctx, "Future.Await")
	for at := target; at != nil; at = at.awaits() {
		if at == t {
			return circle(t, target)
		}
	}
	waits := t.waits()
	waits.awaits = target
	err := l.Wait(ctx, "Future")
	waits.awaits = nil
	return err
}

// circle returns the error for t, which is about to await target: target awaits t, directly
// or through other tasks.
func circle(t, target *Task) error {
	names := []string{t.Name()}
	for at := target; at != t; at = at.awaits() {
		names = append(names, at.Name())
	}
	return fmt.Errorf("spindle: tasks await each other: %s", strings.Join(append(names, t.Name()), " → "))
}

// awaits returns the task that t awaits; nil if there is none.
func (t *Task) awaits() *Task {
	if !t.waiting() || t.extra == nil || t.extra.waits == nil {
		return nil
	}
	return t.extra.waits.awaits
}

// Result returns the result. It fails if there is none yet; see Done.
func (f *Future[T]) Result() (T, error) {
	if !f.done {
		var zero T
		return zero, errNotDone
	}
	f.read()
	return f.value, f.err
}

// Done reports whether there is a result.
func (f *Future[T]) Done() bool { return f.done }

// Err returns the error of the result. It returns nil if there is no result yet.
func (f *Future[T]) Err() error {
	f.read()
	return f.err
}

func (f *Future[T]) hasFailed() bool { return f.err != nil }

// Then arranges for the loop to call fn once there is a result. Calling stop undoes that;
// it reports whether fn was still to be called. They are asyncio's add_done_callback and
// remove_done_callback.
func (f *Future[T]) Then(fn func()) (stop func() bool) {
	f.s.only("Future.Then")
	if f.done {
		return f.s.l.CallSoon(fn).Cancel
	}
	return f.then.add(fn).stop
}

// Cancel cancels the future's task. A future of NewFuture has none, and is rejected.
func (f *Future[T]) Cancel() {
	if f.scope != nil {
		f.scope.Cancel(nil)
		return
	}
	f.Reject(context.Canceled)
}

// Start runs fn as a task of the nursery and waits until fn calls started, which it does
// when it is ready. Start returns the argument of started. If fn returns before that, Start
// fails, with its error if there is one, and the nursery does not fail. If the caller
// is cancelled before that, so is the task, and Start waits for its end; if the nursery is full
// (see SetLimit), fn is not called. It is Trio's nursery.start.
func Start[T any](ctx context.Context, n *Nursery, fn func(ctx context.Context, started func(T)) error) (T, error) {
	caller(ctx, "Start")
	n.s.only("Start")
	f := NewFuture[T](ctx)
	own := n.scope.open(n.scope)
	cancelled := func(err error) { f.Reject(err) }
	n.start(&TaskOptions{own: own, code: codeOf(fn), cancelled: cancelled}, func(context.Context) error {
		defer f.Reject(errTaskPanicked) // unless it is done
		err := fn(own, func(v T) {
			if !f.Resolve(v) {
				panic("spindle: a task of Start calls started twice")
			}
		})
		if f.Done() {
			return err
		}
		if err == nil {
			err = errNotStarted
		}
		f.Reject(err)
		return nil
	})
	v, err := f.Await(ctx)
	if f.Done() {
		return v, err
	}
	own.Cancel(err)
	Shield(ctx, func(ctx context.Context) error {
		f.Await(ctx)
		return nil
	})
	return v, err
}
