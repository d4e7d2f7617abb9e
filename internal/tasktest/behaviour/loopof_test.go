package behaviour_test

import (
	"context"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// TestRandFollowsTheSeed: the same numbers in each run of one seed, others with
// another seed, and one source for all tasks of a loop.
func TestRandFollowsTheSeed(t *testing.T) {
	draw := func(seed uint64) (n uint64) {
		w := sim.NewWorld(seed)
		w.Host("host").Go(func(ctx context.Context) error {
			n = spindle.Rand(ctx).Uint64()
			return spindle.WithNursery(ctx, func(inner context.Context, nursery *spindle.Nursery) error {
				nursery.Go(func(other context.Context) error {
					if spindle.Rand(other) != spindle.Rand(ctx) {
						t.Error("two tasks of a loop have two sources")
					}
					return nil
				})
				return nil
			})
		})
		if err := w.Run(); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if a, b, c := draw(1), draw(1), draw(2); a != b || a == c {
		t.Error(a, b, c)
	}
}

func TestRandOnARealLoop(t *testing.T) {
	seen := map[uint64]bool{}
	for range 3 {
		if err := spindle.Run(t.Context(), func(ctx context.Context) error {
			seen[spindle.Rand(ctx).Uint64()] = true
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 3 {
		t.Error(seen)
	}
	defer func() {
		if v, _ := recover().(string); !strings.Contains(v, "Rand") {
			t.Error(v)
		}
	}()
	spindle.Rand(context.Background())
}
