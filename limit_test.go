package spindle_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
)

// TestLimit: tasks begin in order, never more at a time than allowed, and Go does not wait.
func TestLimit(t *testing.T) {
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		var began []int
		now, most := 0, 0
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.SetLimit(3)
			for i := range 20 {
				n.GoWith(spindle.TaskOptions{Eager: i%2 == 0}, func(ctx context.Context) error {
					began = append(began, i)
					now++
					most = max(most, now)
					defer func() { now-- }()
					return spindle.Sleep(ctx, time.Duration(1+i%3)*time.Second)
				})
			}
			if len(began) > 3 {
				t.Errorf("%d tasks have begun at once", len(began))
			}
			return nil
		})
		if most != 3 || len(began) != 20 || !slices.IsSorted(began[3:]) {
			t.Errorf("%d at a time, in the order %v", most, began)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestLimitMoves: tasks that run already count, and raising or removing the limit begins
// those that were held back.
func TestLimitMoves(t *testing.T) {
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		begun := 0
		start := func(tasks int) {
			for range tasks {
				n.Go(func(ctx context.Context) error { begun++; return forever(ctx) })
			}
		}
		want := func(tasks int) {
			t.Helper()
			if err := spindle.Sleep(ctx, time.Second); err != nil || begun != tasks {
				t.Errorf("%d have begun, want %d: %v", begun, tasks, err)
			}
		}
		start(2)
		n.SetLimit(3)
		start(8)
		want(3)
		n.SetLimit(1) // ends none
		want(3)
		n.SetLimit(5)
		want(5)
		n.SetLimit(0)
		want(10)
		n.Scope().Cancel(nil)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestLimitOfAFailedNursery: tasks that are held back begin and find themselves cancelled,
// so that futures of theirs are completed.
func TestLimitOfAFailedNursery(t *testing.T) {
	boom := errors.New("boom")
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		var last *spindle.Future[int]
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.SetLimit(1)
			n.Go(func(context.Context) error { return boom })
			for range 1000 {
				last = spindle.Spawn(n, func(ctx context.Context) (int, error) { return 1, spindle.Sleep(ctx, time.Hour) })
			}
			return nil
		})
		if !errors.Is(err, boom) || !errors.Is(last.Err(), context.Canceled) {
			t.Errorf("%v, and the last future has %v", err, last.Err())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestLimitDoesNotHoldUpTheEnd: when a loop is closed, tasks that ignore cancellation and
// those behind them are ended.
func TestLimitDoesNotHoldUpTheEnd(t *testing.T) {
	l := openLoop(t)
	n, _ := spindle.NurseryOn(t.Context(), l)
	n.SetLimit(1)
	ended := 0
	for range 1000 {
		n.Go(func(ctx context.Context) error {
			defer func() { ended++ }()
			for {
				spindle.Sleep(ctx, time.Hour)
			}
		})
	}
	turn(t, l)
	if err := l.Close(); err == nil || ended != 1000 {
		t.Errorf("%d tasks have ended", ended)
	}
}
