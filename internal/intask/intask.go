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
// operation. The caller may be any goroutine that is not on the loop of n.
//
// Such a goroutine is in no scope of n. So if n has ended or is cancelled, or its loop
// is closed, Run fails with net.ErrClosed. It also does if fn panics; the panic is the
// task's.
func Run[T any](n *spindle.Nursery, name string, fn func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	r, err := onloop.Call(n.Scope(), spindle.LoopOf(n.Scope()), name, func(done func(result)) {
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
