package sim

import (
	"context"
	"math"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/simnet"
)

// WaitAllBlocked waits until every other task of the world waits: there is
// nothing left to do but to let time pass, and no time has passed. It is how a
// test lets tasks get to where they wait before it goes on. It is Trio's
// wait_all_tasks_blocked.
//
// A task that waits for offloaded work waits like any other, as in Trio: the work
// is still to happen when WaitAllBlocked returns. Several tasks in WaitAllBlocked
// return together. A task that yields for ever never waits.
//
// It is for tasks of a simulated run.
func WaitAllBlocked(ctx context.Context) error {
	p := processOf(ctx, "WaitAllBlocked")
	l := spindle.LoopOf(ctx)
	lot, ok := l.Local(blockedKey{}).(*spindle.Lot)
	if !ok {
		lot = new(spindle.Lot)
		l.SetLocal(blockedKey{}, lot)
		p.OnIdle = func() { lot.Wake(math.MaxInt) }
	}
	p.AwaitIdle()
	return lot.Wait(ctx, "WaitAllBlocked")
}

type blockedKey struct{}

// processOf is the simulated process that the calling task runs in.
func processOf(ctx context.Context, op string) *simnet.Process {
	mustBeTask(ctx, op)
	p, ok := spindle.LoopOf(ctx).Kernel().Poller.(*simnet.Process)
	if !ok {
		panic("sim: " + op + " in a run that is not simulated; use Test, Run or a World of package sim")
	}
	return p
}

// mustBeTask panics unless the caller is a task of the run that ctx belongs to.
func mustBeTask(ctx context.Context, op string) {
	if spindle.Current(ctx) == nil {
		panic("sim: " + op + " called by what is not a task of the run that its context belongs to")
	}
}

// Pipe makes a pipe in the simulated process of the calling task: what is written
// to w can be read from r.
func Pipe(ctx context.Context) (r, w int, err error) { return processOf(ctx, "Pipe").Pipe() }

// SocketPair makes two connected Unix sockets in the simulated process of the
// calling task.
func SocketPair(ctx context.Context) (a, b int, err error) {
	return processOf(ctx, "SocketPair").SocketPair()
}
