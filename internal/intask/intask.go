// Package intask runs functions in tasks for goroutines that wait for the result, and functions
// that take their time when a run ends.
package intask

import (
	"context"
	"errors"
	"net"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/onloop"
)

// Run calls fn in a task of n and waits for the result. The task has the name of the
// operation. Caller is what onloop.Caller returns for the loop of n, and not a task of it.
//
// The caller is in no scope of n. So if n has ended or is cancelled, or its loop is
// closed, Run fails with net.ErrClosed. It also does if fn panics; the panic is the
// task's. If the caller is a task of another loop and is cancelled, fn is, too, and Run
// fails with that cancellation if fn fails.
func Run[T any](caller context.Context, n *spindle.Nursery, name string, fn func(context.Context) (T, error)) (T, error) {
	if coro.Calling(caller) == nil {
		return run(n.Scope(), n, name, fn)
	}
	return onloop.Elsewhere(caller, name, func(until context.Context) (T, error) {
		ctx, cancel := context.WithCancel(n.Scope()) // while the task has not begun
		defer cancel()
		defer context.AfterFunc(until, cancel)()
		return run(ctx, n, name, func(ctx context.Context) (value T, err error) {
			spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				stop := spindle.LoopOf(ctx).Internal().AfterFunc(until, func() { s.Cancel(context.Canceled) })
				defer stop()
				value, err = fn(ctx)
				return err
			})
			return value, err
		})
	})
}

// run is Run for a goroutine that runs no loop. It fails if ctx ends before the task begins.
func run[T any](ctx context.Context, n *spindle.Nursery, name string, fn func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	r, err := onloop.Call(ctx, spindle.LoopOf(n.Scope()), name, func(done func(result)) {
		r := result{err: net.ErrClosed}
		if n.Ended() || n.Scope().Err() != nil {
			done(r)
			return
		}
		n.GoWith(spindle.TaskOptions{Name: name + " for a goroutine", Eager: true, Values: coro.Helper{}}, func(ctx context.Context) error {
			defer func() { done(r) }()
			value, err := fn(ctx)
			if canceled := (*spindle.Canceled)(nil); errors.As(err, &canceled) {
				err = net.ErrClosed
			}
			r = result{value, err}
			return nil
		})
	})
	if err != nil { // the loop is closed, or the nursery was cancelled first
		return r.value, net.ErrClosed
	}
	return r.value, r.err
}
