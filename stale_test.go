package spindle_test

import (
	"context"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// TestWakerOfAnEndedTask: the coroutine of a task that has ended is used for
// others, and so is the task; a Waker of the first wakes none of them.
func TestWakerOfAnEndedTask(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		var old spindle.Waker
		wait := func(keep *spindle.Waker) func(context.Context) error {
			return func(ctx context.Context) error {
				w, err := spindle.NewWaker(ctx)
				if err != nil {
					return err
				}
				*keep = w
				return w.Park(ctx, "the test", spindle.AbortFunc(func() bool { return true }))
			}
		}
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(wait(&old))
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			if !old.Wake(nil) {
				t.Error("the first does not wait")
			}
			return nil
		})
		if err != nil {
			return err
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var young spindle.Waker
			n.Go(wait(&young))
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			if old.Wake(nil) {
				t.Error("it wakes another task")
				return nil
			}
			if !young.Wake(nil) {
				t.Error("the second does not wait")
			}
			return nil
		})
	})
}
