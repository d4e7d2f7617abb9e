package spindle_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

func TestMapKeepsOrderAndLimit(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		items := []int{5, 1, 4, 2, 3, 0}
		running, most := 0, 0
		begin := spindle.Now(ctx)
		squares, err := spindle.Map(ctx, 2, items, func(ctx context.Context, n int) (int, error) {
			running++
			most = max(most, running)
			defer func() { running-- }()
			return n * n, spindle.Sleep(ctx, time.Duration(n)*time.Second)
		})
		if want := []int{25, 1, 16, 4, 9, 0}; !slices.Equal(squares, want) || most != 2 {
			t.Errorf("%v, want %v; %d at a time", squares, want, most)
		}
		// Two tasks, each taking the next item when it has done one: 5+2+0 and 1+4+3 s.
		if took := spindle.Now(ctx).Sub(begin).Round(time.Second); took != 8*time.Second {
			t.Errorf("took %v", took)
		}
		return err
	})
}

func TestForEachStopsAtAFailure(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		broken := errors.New("broken")
		var begun, ended []int
		err := spindle.ForEach(ctx, 2, []int{1, 2, 3, 4, 5}, func(ctx context.Context, n int) error {
			begun = append(begun, n)
			if n == 3 {
				return broken
			}
			if err := spindle.Sleep(ctx, time.Duration(n)*time.Second); err != nil {
				return err
			}
			ended = append(ended, n)
			return nil
		})
		if !errors.Is(err, broken) || !slices.Equal(begun, []int{1, 2, 3}) || !slices.Equal(ended, []int{1}) {
			t.Errorf("%v; begun %v, ended %v", err, begun, ended)
		}
		return nil
	})
}

// TestForEachLetsOthersRun: a function that never waits does not keep the loop.
func TestForEachLetsOthersRun(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			other := false
			n.Go(func(context.Context) error { other = true; return nil })
			seen := 0
			err := spindle.ForEach(ctx, 1, make([]struct{}, 1000), func(context.Context, struct{}) error {
				if seen++; seen == 1000 && !other {
					t.Error("the other task did not run")
				}
				return nil
			})
			if seen != 1000 {
				t.Errorf("called %d times", seen)
			}
			return err
		})
	})
}

func TestForEachOfNothing(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		results, err := spindle.Map(ctx, 1, nil, func(context.Context, int) (int, error) { return 0, errors.New("called") })
		if len(results) != 0 {
			t.Errorf("results %v", results)
		}
		mustPanic(t, "spindle: Map with a limit below 1", func() {
			spindle.Map(ctx, 0, []int{1}, func(context.Context, int) (int, error) { return 0, nil })
		})
		return err
	})
}
