package sim

import (
	"context"
	"math"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/perloop"
	"github.com/spindleloop/spindle/internal/simkernel"
)

// WaitAllBlocked waits until every other task of the world waits and only the
// passing of time could wake one. No time passes meanwhile. A test calls it to let
// tasks reach their waits before it continues. It corresponds to Trio's
// wait_all_tasks_blocked.
//
// As in Trio, a task that waits for offloaded work counts as waiting: the work has
// not run when WaitAllBlocked returns. If several tasks call WaitAllBlocked, they
// return together. A task that yields in an endless loop never waits.
//
// WaitAllBlocked panics if the caller is not a task of a simulated run.
func WaitAllBlocked(ctx context.Context) error {
	p := processOf(ctx, "WaitAllBlocked")
	l := spindle.LoopOf(ctx)
	lot := lots.Get(l, func() *spindle.Lot {
		lot := new(spindle.Lot)
		p.OnIdle = func() { lot.Wake(math.MaxInt) }
		return lot
	})
	p.AwaitIdle()
	return lot.Wait(ctx, "WaitAllBlocked")
}

var lots perloop.Values[spindle.Lot] // the callers of WaitAllBlocked

// processOf returns the simulated process of the calling task. It panics if the
// run is not simulated.
func processOf(ctx context.Context, op string) *simkernel.Process {
	mustBeTask(ctx, op)
	p, ok := spindle.LoopOf(ctx).Internal().Kernel().Poller.(*simkernel.Process)
	if !ok {
		panic("sim: " + op + " in a run that is not simulated; use Test, Run or a World of package sim")
	}
	return p
}

// mustBeTask panics unless the caller is a task of the run that ctx belongs to.
func mustBeTask(ctx context.Context, op string) {
	if spindle.Current(ctx) == nil {
		panic("sim: " + op + " called outside of the tasks of its context's run; call it in a task, with that task's context")
	}
}
