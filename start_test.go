package spindle_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// elsewhere opens a nursery in a task of its own, and hands it over.
func elsewhere(ctx context.Context, n *spindle.Nursery) (opened *spindle.Nursery, ended *spindle.Future[error], err error) {
	ended = spindle.NewFuture[error](ctx)
	opened, err = spindle.Start(ctx, n, func(ctx context.Context, started func(*spindle.Nursery)) error {
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			started(n)
			return forever(ctx)
		})
		ended.Resolve(err)
		return nil
	})
	return opened, ended, err
}

// TestStartWhoseChildIsCancelled before it has reported: Start ends with it.
func TestStartWhoseChildIsCancelled(t *testing.T) {
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		other, ended, err := elsewhere(ctx, n)
		if err != nil {
			return err
		}
		n.Go(func(ctx context.Context) error {
			err := spindle.Sleep(ctx, time.Second)
			other.Go(func(context.Context) error { return errOther }) // cancels its siblings
			return err
		})
		_, err = spindle.Start(ctx, other, func(ctx context.Context, started func(int)) error { return forever(ctx) })
		if !errors.Is(err, context.Canceled) || spindle.LoopOf(ctx).Time() != time.Second {
			t.Errorf("%v at %v", err, spindle.LoopOf(ctx).Time())
		}
		result, err := ended.Await(ctx)
		if result != errOther {
			t.Errorf("the nursery ended with %v", result)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestStartThatNobodyReportsTo is given up like any wait.
func TestStartThatNobodyReportsTo(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			expired, err := spindle.MoveOnAfter(ctx, time.Minute, func(ctx context.Context) error {
				_, err := spindle.Start(ctx, n, func(ctx context.Context, started func(int)) error {
					return spindle.Sleep(ctx, time.Hour)
				})
				return err
			})
			if !expired || spindle.LoopOf(ctx).Time() != time.Minute {
				t.Errorf("expired %v, %v at %v", expired, err, spindle.LoopOf(ctx).Time())
			}
			return err
		})
	})
}

// TestStartedTaskFailsLater: then it is the nursery's failure, and what it has
// reported is not taken back.
func TestStartedTaskFailsLater(t *testing.T) {
	boom := errors.New("boom")
	got := 0
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) (err error) {
		got, err = spindle.Start(ctx, n, func(ctx context.Context, started func(int)) error {
			started(7)
			return errors.Join(spindle.Sleep(ctx, time.Second), boom)
		})
		if err != nil {
			return err
		}
		return forever(ctx)
	})
	if got != 7 || !errors.Is(err, boom) {
		t.Errorf("got %d, %v", got, err)
	}
}

// TestStartIntoACancelledNursery fails, and the task ends at its first wait.
func TestStartIntoACancelledNursery(t *testing.T) {
	boom := errors.New("boom")
	ended := false
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(context.Context) error { return boom })
		forever(ctx)
		_, err := spindle.Start(ctx, n, func(ctx context.Context, started func(int)) error {
			defer func() { ended = true }()
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			started(1)
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("start: %v", err)
		}
		return err
	})
	if err != boom || !ended {
		t.Errorf("%v, ended %v", err, ended)
	}
}

// TestSpawnedFailureIsItsFuturesAlone: siblings go on; and a nursery that is
// cancelled cancels them all.
func TestSpawnedFailureIsItsFuturesAlone(t *testing.T) {
	boom := errors.New("boom")
	var a, b *spindle.Future[int]
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		a = spindle.Spawn(n, after(time.Second, 1, boom))
		b = spindle.Spawn(n, after(time.Hour, 2, nil))
		c := spindle.Spawn(n, after(time.Minute, 3, nil))
		if v, err := c.Await(ctx); v != 3 {
			t.Errorf("%d, %v", v, err)
		}
		return errOther
	})
	if err != errOther || a.Err() != boom || !errors.Is(b.Err(), context.Canceled) {
		t.Errorf("%v; futures %v, %v", err, a.Err(), b.Err())
	}
}

// TestBodyPanicsWhileChildrenFail: the panic is what comes out, when the children
// have ended.
func TestBodyPanicsWhileChildrenFail(t *testing.T) {
	ended := 0
	defer func() {
		if p, ok := recover().(*spindle.PanicError); !ok || p.Value != "boom" || ended != 2 {
			t.Errorf("panic %v, %d ended", p, ended)
		}
	}()
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		for range 2 {
			n.Go(func(ctx context.Context) error {
				forever(ctx)
				defer func() { ended++ }()
				return spindle.Grace(ctx, time.Minute, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Second) })
			})
		}
		if err := spindle.Sleep(ctx, time.Second); err != nil {
			return err
		}
		panic("boom")
	})
	t.Errorf("it returned %v", err)
}
