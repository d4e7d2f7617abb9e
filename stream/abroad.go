package stream

import (
	"context"
	"net"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// abroad does a call for a goroutine that is no task of the loop: a task does it,
// and the goroutine waits. It fails with net.ErrClosed if the loop has ended, or
// the run that the connection belongs to.
func (c *Conn) abroad(op string, call func(context.Context) (int, error)) (int, error) {
	n, err := inTask(c.loop(), c.home, "Conn."+op+" of a goroutine", call)
	return n, c.fault(op, err)
}

// inTask runs call as a task of n, from any goroutine but a task of the loop.
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
	if err := l.Post(func() {
		if n.Ended() {
			done <- result{zero, net.ErrClosed}
			return
		}
		n.GoWith(spindle.TaskOptions{Name: name, Eager: true}, func(ctx context.Context) error {
			r := result{zero, net.ErrClosed}
			defer func() { done <- r }()
			r.value, r.err = call(ctx)
			return nil
		})
	}); err != nil {
		return zero, closedFor(err)
	}
	select {
	case r := <-done:
		return r.value, r.err
	case <-l.Done():
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
