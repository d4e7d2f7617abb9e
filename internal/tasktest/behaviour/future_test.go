package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// TestResultAndTimeOutInOneTurn: both come at the same virtual time, and the result is not
// lost.
func TestResultAndTimeOutInOneTurn(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		f := spindle.NewFuture[int](ctx)
		spindle.LoopOf(ctx).CallLater(time.Second, func() { f.Resolve(7) })
		got := 0
		expired, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) (err error) {
			got, err = f.Await(ctx)
			return err
		})
		if got != 7 || expired || err != nil {
			t.Errorf("got %d, expired %v, %v", got, expired, err)
		}
		return nil
	})
}

func TestFutureThenCancelResult(t *testing.T) {
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		f := spindle.Spawn(n, func(ctx context.Context) (int, error) { return 1, forever(ctx) })
		if _, err := f.Result(); fmt.Sprint(err) != "spindle: future is not done" || f.Done() {
			t.Errorf("early result: %v", err)
		}
		told := 0
		f.Then(func() { told++ })
		if err := spindle.Yield(ctx); err != nil {
			return err
		}
		f.Cancel()
		if _, err := f.Await(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		f.Then(func() { told++ })
		if err := spindle.Yield(ctx); err != nil || told != 2 {
			t.Errorf("told %d, %v", told, err)
		}
		p := spindle.NewFuture[int](ctx)
		if !p.Resolve(1) || p.Resolve(2) || p.Reject(nil) {
			t.Error("a future was completed twice")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCirclesAreNamed(t *testing.T) {
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		var a, b *spindle.Future[int]
		var self *spindle.Future[int]
		self = spindle.Spawn(n, func(ctx context.Context) (int, error) { return self.Await(ctx) })
		a = spindle.Spawn(n, func(ctx context.Context) (int, error) { return b.Await(ctx) })
		b = spindle.Spawn(n, func(ctx context.Context) (int, error) { return a.Await(ctx) })
		if _, err := self.Await(ctx); err == nil || strings.Count(err.Error(), "→") != 1 {
			t.Errorf("self: %v", err)
		}
		if _, err := a.Await(ctx); err == nil || strings.Count(err.Error(), "→") != 2 {
			t.Errorf("circle: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestThenCanBeStopped before there is a result, and also after, as long as the function
// was not called.
func TestThenCanBeStopped(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		f := spindle.NewFuture[int](ctx)
		var called []int
		var stops []func() bool
		for i := range 5 {
			stops = append(stops, f.Then(func() { called = append(called, i) }))
		}
		for _, i := range []int{0, 2} { // the first, and one in between
			if !stops[i]() || stops[i]() {
				t.Errorf("stop of function %d", i)
			}
		}
		f.Resolve(1)
		late := f.Then(func() { called = append(called, 5) })
		if !stops[4]() || !late() || late() {
			t.Error("stop of functions that are to be called")
		}
		if err := spindle.Yield(ctx); err != nil {
			return err
		}
		if !slices.Equal(called, []int{1, 3}) {
			t.Errorf("called: %v", called)
		}
		if stops[1]() {
			t.Error("stop of a function that was called")
		}
		return nil
	})
}

// TestLongCircleIsNamed: the task that would close the circle gets the error, and the
// others get the result of that task.
func TestLongCircleIsNamed(t *testing.T) {
	const long = 5
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		var ring [long]*spindle.Future[int]
		for i := range ring {
			ring[i] = spindle.Spawn(n, func(ctx context.Context) (int, error) { return ring[(i+1)%long].Await(ctx) })
		}
		outside := spindle.Spawn(n, func(ctx context.Context) (int, error) { return ring[0].Await(ctx) })
		for _, f := range append(ring[:], outside) {
			_, err := f.Await(ctx)
			if err == nil {
				t.Fatal("a cycle was not noticed")
			}
			_, list, _ := strings.Cut(err.Error(), "tasks await each other: ")
			if tasks := strings.Split(list, " → "); len(tasks) != long+1 || tasks[0] != tasks[long] {
				t.Error(err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestGivenUpWaitClosesNoCircle: a task that no longer waits for another may be awaited by
// it.
func TestGivenUpWaitClosesNoCircle(t *testing.T) {
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		var a, b *spindle.Future[int]
		a = spindle.Spawn(n, func(ctx context.Context) (int, error) {
			_, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) error {
				_, err := b.Await(ctx)
				return err
			})
			return 7, errors.Join(err, spindle.Sleep(ctx, time.Minute))
		})
		b = spindle.Spawn(n, func(ctx context.Context) (int, error) {
			if err := spindle.Sleep(ctx, 2*time.Second); err != nil {
				return 0, err
			}
			return a.Await(ctx)
		})
		v, err := b.Await(ctx)
		if v != 7 {
			t.Errorf("got %d, %v", v, err)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
