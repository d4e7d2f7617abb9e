package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

func TestGather(t *testing.T) {
	boom := errors.New("boom")
	sim.Test(t, func(ctx context.Context) error {
		got, err := spindle.Gather(ctx, after(3*time.Second, 1, nil), after(time.Second, 2, nil), after(2*time.Second, 3, nil))
		if err != nil || !slices.Equal(got, []int{1, 2, 3}) || spindle.LoopOf(ctx).Time() != 3*time.Second {
			t.Errorf("%v, %v at %v", got, err, spindle.LoopOf(ctx).Time())
		}
		var other error
		_, err = spindle.Gather(ctx, after(time.Second, 0, boom), func(ctx context.Context) (int, error) {
			other = forever(ctx)
			return 0, other
		})
		if err != boom || !errors.Is(other, context.Canceled) {
			t.Errorf("%v, other %v", err, other)
		}
		results, failures, err := spindle.GatherAll(ctx, after(time.Second, 7, boom), after(time.Hour, 8, nil))
		if err != nil || failures[0] != boom || results[1] != 8 || failures[1] != nil {
			t.Errorf("%v, %v, %v", results, failures, err)
		}
		// Cancelled from outside, it cancels its children.
		other = nil
		expired, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) error {
			_, err := spindle.Gather(ctx, func(ctx context.Context) (int, error) { other = forever(ctx); return 0, other })
			return err
		})
		if !expired || err != nil || other == nil {
			t.Errorf("expired %v, %v, child %v", expired, err, other)
		}
		return nil
	})
}

func firstGathered(ctx context.Context) (string, error) { return spindle.Current(ctx).Name(), nil }

func secondGathered(ctx context.Context) (string, error) { return spindle.Current(ctx).Name(), nil }

func TestGatherNamesTasksAfterTheirFunctions(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		want := []string{"behaviour_test.firstGathered", "behaviour_test.secondGathered", "behaviour_test.firstGathered"}
		names, err := spindle.Gather(ctx, firstGathered, secondGathered, firstGathered)
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("Gather: %q, %v", names, err)
		}
		names, _, err = spindle.GatherAll(ctx, firstGathered, secondGathered, firstGathered)
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("GatherAll: %q, %v", names, err)
		}
		return nil
	})
}

func TestGatherAllocatesNothingForEachFunction(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		fns := slices.Repeat([]func(context.Context) (int, error){after(0, 1, nil)}, 100)
		allocations := func(fns []func(context.Context) (int, error)) float64 {
			return testing.AllocsPerRun(20, func() {
				if _, err := spindle.Gather(ctx, fns...); err != nil {
					t.Error(err)
				}
			})
		}
		if one, many := allocations(fns[:1]), allocations(fns); many > one+5 {
			t.Errorf("%v allocations for %d functions, %v for one", many, len(fns), one)
		}
		return nil
	})
}

func TestWaitLeavesTheOthersRunning(t *testing.T) {
	boom := errors.New("boom")
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		a := spindle.Spawn(n, after(time.Second, "a", nil))
		b := spindle.Spawn(n, after(2*time.Second, "b", boom))
		c := spindle.Spawn(n, after(3*time.Second, "c", nil))
		for _, want := range []struct {
			until spindle.Until
			done  int
			at    time.Duration
		}{{spindle.FirstDone, 1, 1}, {spindle.FirstFailure, 2, 2}, {spindle.AllDone, 3, 3}} {
			done, pending, err := spindle.Wait(ctx, want.until, a, b, c)
			if err != nil || len(done) != want.done || len(pending) != 3-want.done || spindle.LoopOf(ctx).Time() != want.at*time.Second {
				t.Errorf("until %d: %d done, %d pending, %v at %v", want.until, len(done), len(pending), err, spindle.LoopOf(ctx).Time())
			}
		}
		if v, err := c.Await(ctx); v != "c" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err) // a spawned task's failure is its future's
	}
}

func TestAsCompleted(t *testing.T) {
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		var futures []spindle.Awaitable
		for _, d := range []time.Duration{3, 1, 2} {
			futures = append(futures, spindle.Spawn(n, after(d*time.Second, d, nil)))
		}
		order := ""
		for f, err := range spindle.AsCompleted(ctx, futures...) {
			if err != nil {
				return err
			}
			v, _ := f.(*spindle.Future[time.Duration]).Result()
			order += fmt.Sprint(int(v))
		}
		if order != "123" {
			t.Errorf("order %q", order)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestWaitsLeaveNothingBehind in a future that is waited for several times.
func TestWaitsLeaveNothingBehind(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		slow := spindle.NewFuture[int](ctx)
		for range 3 {
			quick := spindle.NewFuture[int](ctx)
			spindle.LoopOf(ctx).CallSoon(func() { quick.Resolve(1) })
			if _, _, err := spindle.Wait(ctx, spindle.FirstDone, slow, quick); err != nil {
				return err
			}
			again := spindle.NewFuture[int](ctx)
			again.Resolve(1)
			for range spindle.AsCompleted(ctx, slow, again) {
				break
			}
		}
		slow.Resolve(1)
		if s := spindle.LoopOf(ctx).Stats(); s.Ready != 0 {
			t.Errorf("%d callbacks are still registered", s.Ready)
		}
		return nil
	})
}

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

// TestForEachBeginsNothingAfterAFailure: the first call fails before the other tasks begin.
func TestForEachBeginsNothingAfterAFailure(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		broken := errors.New("broken")
		var begun []int
		err := spindle.ForEach(ctx, 3, []int{1, 2, 3, 4, 5}, func(_ context.Context, n int) error {
			begun = append(begun, n)
			return broken
		})
		if err != broken || !slices.Equal(begun, []int{1}) {
			t.Errorf("%v; begun %v", err, begun)
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
