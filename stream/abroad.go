package stream

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// abroad does a call for a goroutine that is no task of the loop: a task does it,
// and the goroutine waits. It fails with net.ErrClosed if the loop has ended, or
// the run that the connection belongs to.
func (c *Conn) abroad(op string, call func(context.Context) (int, error)) (int, error) {
	n, err := inTask(c.loop(), c.home, "Conn."+strings.ToUpper(op[:1])+op[1:]+" of a goroutine", call)
	return n, c.fault(op, err)
}

// soon does on the loop what nobody has to wait for. If the loop is closed before,
// it is not done, and need not be.
func soon(l *loop.Loop, fn func()) error {
	// It is not enough that the loop does not run: it may be about to end, or to
	// run again, on another goroutine.
	if l.Owns() {
		fn()
		return nil
	}
	return closedFor(l.PostWith(loop.DropAtClose, fn))
}

// inTask runs call as a task of n, from any goroutine but a task of the loop. If n
// is cancelled or has ended, that is net.ErrClosed: the goroutine is in no scope.
func inTask[T any](l *loop.Loop, n *spindle.Nursery, name string, call func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var zero T
	if l.Owns() { // in a callback, which cannot wait
		panic("stream: " + name + " called from a callback of the loop; start a task")
	}
	done := make(chan result, 1)
	var begun atomic.Bool // or given up
	if err := l.PostWith(loop.DropAtClose, func() {
		if !begun.CompareAndSwap(false, true) {
			return
		}
		if n.Ended() {
			done <- result{zero, net.ErrClosed}
			return
		}
		n.GoWith(spindle.TaskOptions{Name: name, Eager: true}, func(ctx context.Context) error {
			r := result{zero, net.ErrClosed}
			defer func() { done <- r }()
			r.value, r.err = call(ctx)
			if canceled := (*spindle.Canceled)(nil); errors.As(r.err, &canceled) {
				r.err = net.ErrClosed
			}
			return nil
		})
	}); err != nil {
		return zero, closedFor(err)
	}
	select {
	case r := <-done:
		return r.value, r.err
	case <-n.Scope().Done(): // the loop may not run again
		if begun.CompareAndSwap(false, true) {
			return zero, net.ErrClosed
		}
	case <-l.Done():
	}
	// It has begun, and may use the caller's memory until it has ended. A loop
	// that is closed runs nothing any more.
	select {
	case r := <-done:
		return r.value, r.err
	case <-l.Done():
	}
	select {
	case r := <-done:
		return r.value, r.err
	default:
		return zero, net.ErrClosed
	}
}

// closedFor is net's word for a loop that is closed.
func closedFor(err error) error {
	if err == loop.ErrClosed {
		return net.ErrClosed
	}
	return err
}
