package sim

import (
	"context"

	"github.com/spindleloop/spindle"
)

// WaitAllBlocked waits until every other task of the run waits: the loop has
// nothing left to do but to let time pass, and has not done so. It is how a test
// lets tasks get to where they wait before it goes on. It is Trio's
// wait_all_tasks_blocked.
//
// Virtual time stands still meanwhile. A task that waits for offloaded work waits
// like any other, as in Trio: the work is still to happen when WaitAllBlocked
// returns. Several tasks in WaitAllBlocked return together. A task that yields
// for ever never waits.
//
// It is for tasks of a simulated run.
func WaitAllBlocked(ctx context.Context) error {
	mustBeTask(ctx, "WaitAllBlocked")
	h, ok := spindle.LoopOf(ctx).Kernel().Poller.(*host)
	if !ok {
		panic("sim: WaitAllBlocked in a run that is not simulated; use Test or Run of package sim")
	}
	return h.blocked.Wait(ctx, "WaitAllBlocked")
}

// mustBeTask panics unless the caller is a task of the run that ctx belongs to.
func mustBeTask(ctx context.Context, op string) {
	if spindle.Current(ctx) == nil {
		panic("sim: " + op + " called by what is not a task of the run that its context belongs to")
	}
}
