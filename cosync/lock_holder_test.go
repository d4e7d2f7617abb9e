package cosync_test

import (
	"context"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/sim"
)

// TestTreeNamesTheHolderOfALock: also after the lock was handed over. A task that has ended
// is not named.
func TestTreeNamesTheHolderOfALock(t *testing.T) {
	type locker interface {
		Lock(ctx context.Context) error
		Unlock()
	}
	for name, mu := range map[string]locker{"Mutex": new(cosync.Mutex), "RWMutex": new(cosync.RWMutex)} {
		sim.Test(t, func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				var turn [2]cosync.Event
				for i, task := range []string{"first", "second"} {
					n.GoWith(spindle.TaskOptions{Name: task}, func(ctx context.Context) error {
						if err := mu.Lock(ctx); err != nil {
							return err
						}
						if i == 0 {
							defer mu.Unlock() // the second does not unlock
						}
						return turn[i].Wait(ctx)
					})
				}
				n.GoWith(spindle.TaskOptions{Name: "waiter"}, func(ctx context.Context) error { return mu.Lock(ctx) })
				for i, holder := range []string{"first", "second", ""} {
					if err := sim.WaitAllBlocked(ctx); err != nil {
						return err
					}
					tree := spindle.TasksOf(ctx)
					for _, info := range tree {
						if info.Name == "waiter" && info.HeldBy != holder {
							t.Errorf("%s: held by %q, want %q", name, info.HeldBy, holder)
						}
					}
					if holder != "" && !strings.Contains(tree.String(), "held by "+holder) {
						t.Errorf("%s: the text does not say so:\n%v", name, tree)
					}
					if i < len(turn) {
						turn[i].Set()
					}
				}
				mu.Unlock()
				return nil
			})
		})
	}
}
