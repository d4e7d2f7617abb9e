package spindle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
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
