package supervise_test

import (
	"context"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/supervise"
)

// TestACancelledStart: the end of everything does not wait for a child to be ready.
func TestACancelledStart(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		var j journal
		_, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) error {
			return supervise.Run(ctx, supervise.Options{},
				supervise.Child{Name: "a", Start: func(ctx context.Context, _ func()) error { return j.child("a")(ctx) }},
				supervise.Child{Name: "b", Run: j.child("b")})
		})
		j.wants(t, "0 +a; 1000 -a")
		return err
	})
}

// TestRunInACancelledScope: the children end at once, and not after StopWithin.
func TestRunInACancelledScope(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		var j journal
		err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			s.Cancel(nil)
			return supervise.Run(ctx, supervise.Options{}, supervise.Child{Name: "a", Run: j.child("a")})
		})
		j.wants(t, "0 +a; 0 -a")
		return err
	})
}
