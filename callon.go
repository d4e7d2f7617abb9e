package spindle

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/loop"
)

// CallOn runs fn as a task on the loop l, and waits for its result. Tasks of other loops may
// call it, and goroutines that run no loop. In a task of l, CallOn calls fn directly.
//
//	members, err := spindle.CallOn(ctx, room.loop, func(ctx context.Context) (int, error) {
//		return len(room.members), nil // belongs to that loop, so it needs no lock
//	})
//
// The context of fn has the values of ctx. CallOn returns when fn, and all tasks that fn started
// in its RootNursery, have ended. If ctx ends, or the calling task is cancelled, they are
// cancelled, and have 5 seconds to clean up, as the tasks of a Run do. If fn returns a result
// nevertheless, CallOn returns it. If fn has not begun when ctx ends, it is never called. A panic
// in fn is a panic of CallOn.
//
// CallOn fails with loop.ErrClosed if l is closed before fn has ended. If fn cancels the scope of
// its RootNursery and ends because of that, CallOn fails with the cause. While l does not run,
// CallOn waits, and a cancellation ends the wait only if fn has not begun. CallOn panics in a
// callback: call RunOn there for the same loop, or Post a function to another loop.
//
// A call is a run with a task and a scope, which take about as much CPU time as waking the loop and the
// caller does. For a short function without a result, Loop.Post costs less.
func CallOn[T any](ctx context.Context, l *loop.Loop, fn func(context.Context) (T, error)) (T, error) {
	if ctx == nil || l == nil || fn == nil {
		panic("spindle: CallOn with a nil context, loop or function")
	}
	if sc := scopeOf(ctx); sc != nil && sc.s.l == l && l.Owns() && sc.s.running() != nil {
		return fn(ctx)
	}
	var value T
	c := &call{ctx: ctx, l: l, code: codeOf(fn)}
	c.fn = func(ctx context.Context) (err error) {
		value, err = fn(ctx)
		c.succeeded = err == nil
		return err
	}
	err := c.do()
	return value, err
}

// call is a call of CallOn.
type call struct {
	onloop.Parker // of the caller
	ctx           context.Context
	l             *loop.Loop
	code          uintptr // of the user's function
	fn            func(context.Context) error
	taken         atomic.Bool // by the loop that begins it, or by the caller that gives up

	// Written on the loop l before the caller is woken.
	run       *run
	succeeded bool // fn has returned, without an error
	fault     *PanicError
	err       error // nil even if the run was cancelled
	cause     error // of that
}

// do makes the call, on the goroutine of the caller.
func (c *call) do() error {
	const refused = "spindle: CallOn called in a callback, or in a task with a context of another one: it would block the loop; use RunOn and Loop.Post"
	if err := c.Prepare(c.ctx, refused); err != nil {
		return err
	}
	if err := c.l.Internal().Post(atclose.Run, c.begin); err != nil {
		c.Pass()
		return err
	}
	if err := c.Park(c.ctx, "CallOn", c); err != nil {
		return err
	}
	switch {
	case c.fault != nil:
		withError(c.fault, c.err).Repanic()
	case c.err != nil || c.succeeded:
		return c.err
	}
	return c.cancellation()
}

// cancellation returns the error for the cancellation that ended fn: the caller's own, or the cause
// if fn was cancelled on its loop.
func (c *call) cancellation() error {
	if c.Loop() != nil {
		if err := Checkpoint(c.ctx); err != nil {
			return err
		}
	}
	return cmp.Or(context.Cause(c.ctx), c.cause)
}

// Abort is called when the wait of the caller is cancelled. It reports whether fn will never
// be called. Otherwise fn is cancelled, and the wait continues.
func (c *call) Abort() bool {
	if c.taken.CompareAndSwap(false, true) {
		return true
	}
	// If the loop is closed meanwhile, that cancels fn.
	_ = c.l.Internal().Post(atclose.Drop, func() {
		if c.run != nil {
			c.run.cancel(context.Canceled)
		}
	})
	return false
}

// begin starts fn, on its loop.
func (c *call) begin() {
	if !c.taken.CompareAndSwap(false, true) {
		return
	}
	if c.l.Internal().Closing() {
		c.err = loop.ErrClosed
		c.Wake()
		return
	}
	c.run = newRun(c.ctx, c.l, Options{})
	c.run.root.done = func() { c.l.Internal().CallSoon(atclose.Run, c.end) }
	c.run.start(c.fn, c.code)
}

// end ends the run of fn, and wakes the caller.
func (c *call) end() {
	c.run.s.leave(c.run)
	c.fault, c.err = c.run.end(context.Background())
	c.cause = c.run.root.scope.canceled.Cause
	c.run = nil
	c.Wake()
}
