package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// TestSpawnWith: the options of Go apply to a task with a future.
func TestSpawnWith(t *testing.T) {
	type key struct{}
	log, err := logging(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			begun := false
			f := spindle.SpawnWith(n, spindle.TaskOptions{
				Name: "eager", Eager: true, Values: context.WithValue(ctx, key{}, 7),
			}, func(ctx context.Context) (string, error) {
				begun = true
				if err := spindle.Yield(ctx); err != nil {
					return "", err
				}
				return fmt.Sprint(spindle.Current(ctx).Name(), ctx.Value(key{})), nil
			})
			if !begun {
				t.Error("an eager task has not begun")
			}
			if v, err := f.Await(ctx); v != "eager7" || err != nil {
				t.Errorf("%q, %v", v, err)
			}
			done := spindle.SpawnWith(n, spindle.TaskOptions{Eager: true}, func(context.Context) (int, error) { return 1, nil })
			if v, err := done.Result(); v != 1 || err != nil {
				t.Errorf("an eager task that does not wait: %v, %v", v, err)
			}
			canceled := spindle.SpawnWith(n, spindle.TaskOptions{Eager: true}, func(ctx context.Context) (int, error) { return 0, forever(ctx) })
			canceled.Cancel()
			if _, err := canceled.Await(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
			spindle.SpawnWith(n, spindle.TaskOptions{Name: "early", Eager: true}, func(context.Context) (int, error) { return 0, errUnread })
			return nil
		})
	})
	if err != nil || strings.Count(log.String(), "task=early") != 1 {
		t.Errorf("%v, logged\n%s", err, log)
	}
}

// TestSpawnedFailureIsItsFuturesAlone: the other tasks continue. Cancelling the nursery
// cancels them all.
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

func TestSpawnIntoACancelledNursery(t *testing.T) {
	began := false
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		boom := errors.New("boom")
		n.Go(func(ctx context.Context) error { return boom })
		if err := forever(ctx); err == nil {
			t.Error("not cancelled")
		}
		n.Go(func(ctx context.Context) error { began = true; return forever(ctx) }) // ends at its first wait
		return nil
	})
	if err == nil || !began {
		t.Fatalf("%v, began %v", err, began)
	}
}

// TestStartOfACancelledChild: if the child is cancelled before it calls started, Start fails too.
func TestStartOfACancelledChild(t *testing.T) {
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

// TestStartIsCancelled like any other wait.
func TestStartIsCancelled(t *testing.T) {
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

// TestStartedTaskFailsLater: the nursery fails then, and Start has
// returned its value.
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

func TestStartGivenUpCancelsTheChild(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var child error
			_, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) error {
				_, err := spindle.Start(ctx, n, func(ctx context.Context, started func(int)) error {
					child = spindle.Sleep(ctx, time.Hour)
					return child
				})
				return err
			})
			if err := sim.WaitAllBlocked(ctx); err != nil {
				return err
			}
			if !errors.Is(child, context.Canceled) {
				t.Errorf("the child: %v\n%v", child, spindle.TreeOf(ctx))
			}
			return err
		})
	})
}

// TestStartOfAChildThatPanics: Start does not wait for ever, and the nursery panics.
func TestStartOfAChildThatPanics(t *testing.T) {
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		other := spindle.NewFuture[*spindle.Nursery](ctx)
		n.Go(func(ctx context.Context) error {
			defer func() { recover() }()
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error { other.Resolve(n); return forever(ctx) })
		})
		o, err := other.Await(ctx)
		if err != nil {
			return err
		}
		if _, err := spindle.Start(ctx, o, func(context.Context, func(int)) error { panic("boom") }); err == nil {
			t.Error("started")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestStartedTwiceIsNamed(t *testing.T) {
	p := panicOf(func() error {
		return nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
			_, err := spindle.Start(ctx, n, func(ctx context.Context, started func(int)) error { started(1); started(2); return nil })
			return err
		})
	})
	if p == nil {
		t.Error("not named")
	}
}

func TestStart(t *testing.T) {
	boom := errors.New("boom")
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		port, err := spindle.Start(ctx, n, func(ctx context.Context, started func(int)) error {
			spindle.Sleep(ctx, time.Second)
			started(8080)
			return spindle.Sleep(ctx, time.Minute)
		})
		if port != 8080 || err != nil || spindle.LoopOf(ctx).Time() != time.Second {
			t.Errorf("started %d, %v at %v", port, err, spindle.LoopOf(ctx).Time())
		}
		if _, err := spindle.Start(ctx, n, func(context.Context, func(int)) error { return boom }); err != boom {
			t.Errorf("failed start: %v", err)
		}
		if _, err := spindle.Start(ctx, n, func(context.Context, func(int)) error { return nil }); fmt.Sprint(err) != "spindle: task ended before it had started" {
			t.Errorf("start without report: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
