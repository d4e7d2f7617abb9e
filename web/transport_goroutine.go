package web

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// fromGoroutine runs call as a task of n, for a goroutine that waits for it. If the
// run has ended, or ends before, that is net.ErrClosed.
func fromGoroutine[T any](l *loop.Loop, n *spindle.Nursery, call func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	var begun atomic.Bool // or given up
	var zero T
	if l.PostWith(loop.DropAtClose, func() {
		if !begun.CompareAndSwap(false, true) {
			return
		}
		if n.Ended() || n.Scope().Err() != nil {
			done <- result{zero, net.ErrClosed}
			return
		}
		n.GoWith(spindle.TaskOptions{Name: "request of a goroutine", Eager: true}, func(ctx context.Context) error {
			r := result{zero, net.ErrClosed} // if it panics
			defer func() { done <- r }()
			r.value, r.err = call(ctx)
			if canceled := (*spindle.Canceled)(nil); errors.As(r.err, &canceled) {
				r.err = net.ErrClosed
			}
			return nil
		})
	}) != nil {
		return zero, net.ErrClosed
	}
	select {
	case r := <-done:
		return r.value, r.err
	case <-n.Scope().Done(): // the loop may not run again
		if begun.CompareAndSwap(false, true) {
			return zero, net.ErrClosed
		}
		select { // it has begun, and will end
		case r := <-done:
			return r.value, r.err
		case <-l.Done():
		}
	case <-l.Done():
	}
	select {
	case r := <-done:
		return r.value, r.err
	default:
		return zero, net.ErrClosed
	}
}
