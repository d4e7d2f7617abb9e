package onloop

import (
	"context"
	"sync/atomic"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/loop"
)

// Call calls start on l, and waits until done was called on l. It returns the value that
// done was called with. Done may be called once, by start or later. Tasks may call it, of l and of
// other loops, and goroutines that run no loop. A callback must not call it.
//
// A task of l passes its own context. Call calls start at once, and the wait has the name
// what in the task tree. If the task is cancelled before done was called, Call fails with the
// cancellation; done may be called later all the same, and has no effect then. A value that
// start itself has called done with counts, even if the task is cancelled.
//
// For other callers, l runs start in a coming turn. If ctx ends before that, start will not be
// called, and Call fails with the cause of ctx. Once start was called, it may use the caller's
// memory, and Call waits for done. If l closes first, Call fails with loop.ErrClosed. A task of
// another loop passes its own context, too: with another one it would block its loop.
func Call[T any](ctx context.Context, l *loop.Loop, what string, start func(done func(T))) (T, error) {
	if l.Owns() {
		return callInTask(ctx, l, what, start)
	}
	if coro.Calling(ctx) != nil {
		return Elsewhere(ctx, what, func(ctx context.Context) (T, error) { return callOutside(ctx, l, start) })
	}
	return callOutside(ctx, l, start)
}

// callOutside is Call on a goroutine that runs no loop.
func callOutside[T any](ctx context.Context, l *loop.Loop, start func(done func(T))) (T, error) {
	var zero T
	var taken atomic.Bool // by the loop before start, or by the caller that gives up
	result := make(chan T, 1)
	if err := l.Internal().Post(atclose.Drop, func() {
		if taken.CompareAndSwap(false, true) {
			start(func(value T) { result <- value })
		}
	}); err != nil {
		return zero, err
	}
	stop := ctx.Done()
	for {
		select {
		case value := <-result:
			return value, nil
		case <-stop: // the loop may not run again
			if taken.CompareAndSwap(false, true) {
				return zero, context.Cause(ctx)
			}
			stop = nil
		case <-l.Done(): // runs nothing any more, but done may have been called before
			select {
			case value := <-result:
				return value, nil
			default:
				return zero, loop.ErrClosed
			}
		}
	}
}

// answered is set when the value of a call has come, which a cancellation does not take back.
type answered bool

func (a *answered) Abort() bool { return !bool(*a) }

// callInTask is Call in a task of l.
func callInTask[T any](ctx context.Context, l *loop.Loop, what string, start func(done func(T))) (result T, err error) {
	c := coro.Of(l).Running()
	if c == nil {
		panic("onloop: Call in a callback of the loop, which would wait for itself: " + what)
	}
	var over answered
	var p Parker
	start(func(value T) {
		over, result = true, value
		p.waker.Wake(nil)
	})
	p.l = l
	p.waker, err = c.NewWaker(ctx)
	switch {
	case bool(over) && err == nil:
		p.Pass()
		fallthrough
	case bool(over):
		return result, nil
	case err == nil:
		err = p.Park(ctx, what, &over)
	}
	if err != nil {
		var zero T
		return zero, err
	}
	return result, nil
}
