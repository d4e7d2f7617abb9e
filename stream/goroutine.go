package stream

import (
	"context"
	"net"
	"strings"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/intask"
	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/loop"
)

// fromGoroutine runs call in a task of the connection's loop, for a caller that is
// not such a task, and waits for the result. It fails with net.ErrClosed if the loop
// is closed, or if the run that the connection belongs to has ended.
func (c *Conn) fromGoroutine(op string, call func(context.Context) (int, error)) (int, error) {
	n, err := runInTask(c.loop(), c.nursery, "Conn."+strings.ToUpper(op[:1])+op[1:], call)
	return n, c.netError(op, err)
}

// runOnLoop runs fn on the loop without waiting for it. A loop that closes first
// drops fn: by then it has closed everything that fn would act on.
func runOnLoop(l *loop.Loop, fn func()) error {
	// That the loop is not running is not enough to call fn here: another goroutine
	// may be about to run or close it.
	if l.Owns() {
		fn()
		return nil
	}
	return netClosed(l.Internal().Post(atclose.Drop, fn))
}

// runInTask runs call in a task of n and waits for the result. Name is the call's
// name. The caller is a task of another loop, or a goroutine that runs no loop. It is
// in no scope of n, so if n is cancelled or has ended, runInTask fails with
// net.ErrClosed.
func runInTask[T any](l *loop.Loop, n *spindle.Nursery, name string, call func(context.Context) (T, error)) (T, error) {
	caller, ok := onloop.Caller(l)
	if !ok {
		panic("stream: " + name + " called from a callback of a loop; start a task")
	}
	return intask.Run(caller, n, name, call)
}

// netClosed replaces loop.ErrClosed with net.ErrClosed.
func netClosed(err error) error {
	if err == loop.ErrClosed {
		return net.ErrClosed
	}
	return err
}
