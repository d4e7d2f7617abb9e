package cosync_test

import (
	"context"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

// stage is where a small program runs in which one task, the victim, is cancelled at some
// moment. The other tasks must return in any case. Then check reports what is wrong.
type stage struct {
	*spindle.Nursery
	victim func(func(ctx context.Context) error)
	gone   func() bool // the victim has returned
}

type program struct {
	name string
	play func(w *stage) (check func() error)
}

// TestCancelAtEveryStep runs each program many times. It cancels the victim at the first
// scheduling step, at the second, and so on, before, among and after the other tasks of
// the step. No value is lost, no permit leaks, and no task is stuck.
func TestCancelAtEveryStep(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			for _, lane := range []loop.Priority{loop.High, loop.Normal, loop.Low} {
				step, inTime := 0, true
				for ; inTime; step++ {
					var err error
					if inTime, err = playWith(t.Context(), p, lane, step); err != nil {
						t.Fatalf("lane %d, cancelled at step %d: %v", lane, step, err)
					}
				}
				if step < 4 {
					t.Errorf("lane %d: the program had only %d steps", lane, step)
				}
			}
		})
	}
}

// playWith reports whether the victim was still running when it was cancelled.
func playWith(ctx context.Context, p program, lane loop.Priority, step int) (inTime bool, err error) {
	err = sim.Run(ctx, func(ctx context.Context) error {
		var check func() error
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var scope *spindle.Scope
			over := false
			w := &stage{Nursery: n, gone: func() bool { return over }}
			w.victim = func(fn func(context.Context) error) {
				n.Go(func(ctx context.Context) error {
					defer func() { over = true }()
					return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
						scope = s
						return fn(ctx)
					})
				})
			}
			n.GoWith(spindle.TaskOptions{Priority: lane}, func(ctx context.Context) error {
				for i := 0; i < step || scope == nil; i++ {
					if err := spindle.Yield(ctx); err != nil {
						return err
					}
				}
				inTime = !over
				scope.Cancel(nil)
				return nil
			})
			check = p.play(w)
			return nil
		})
		if err != nil {
			return err
		}
		return check()
	})
	return inTime, err
}
