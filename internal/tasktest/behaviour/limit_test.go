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

// TestLimitOfTheRootNursery: the function that Run calls does not count, so it can wait for
// tasks that it starts there.
func TestLimitOfTheRootNursery(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		n, order := spindle.RootNursery(ctx), []int{}
		n.SetLimit(1)
		var all []spindle.Awaitable
		for i := range 3 {
			all = append(all, spindle.Spawn(n, func(ctx context.Context) (int, error) {
				order = append(order, i)
				err := spindle.Yield(ctx)
				order = append(order, i)
				return i, err
			}))
		}
		_, _, err := spindle.Wait(ctx, spindle.AllDone, all...)
		if want := []int{0, 0, 1, 1, 2, 2}; !slices.Equal(order, want) {
			t.Errorf("the order is %v, want %v", order, want)
		}
		return err
	})
}

// TestLimitOfAFailedNursery: the futures of tasks that are held back are completed.
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

// TestLimitDoesNotHoldUpTheEnd: when a loop is closed, tasks that ignore cancellation are
// ended, and those that are held back do not begin.
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
	if err := l.Close(); err == nil || ended != 1 {
		t.Errorf("%d tasks have ended", ended)
	}
}

// TestHeldTaskIsCancelledLikeAnyWait: a task that waits because its nursery is full ends at
// once when it is cancelled, and its function is not called.
func TestHeldTaskIsCancelledLikeAnyWait(t *testing.T) {
	full := func(ctx context.Context) *spindle.Nursery {
		n := spindle.RootNursery(ctx)
		n.Go(forever)
		n.SetLimit(1)
		return n
	}
	never := func(context.Context) (int, error) {
		t.Error("the function was called")
		return 0, nil
	}
	start := func(ctx context.Context) error {
		_, err := spindle.Start(ctx, spindle.RootNursery(ctx), func(ctx context.Context, _ func(int)) error {
			_, err := never(ctx)
			return err
		})
		return err
	}
	sooner := func(ctx context.Context, began time.Time) error {
		if took := spindle.Now(ctx).Sub(began); took > 20*time.Millisecond {
			return fmt.Errorf("it took %v", took)
		}
		return nil
	}
	for name, test := range map[string]func(ctx context.Context, n *spindle.Nursery) error{
		"Start, time-out": func(ctx context.Context, n *spindle.Nursery) error {
			expired, err := spindle.MoveOnAfter(ctx, 20*time.Millisecond, start)
			if !expired {
				t.Error("the time-out has not expired")
			}
			return err
		},
		"Start, FailAfter": func(ctx context.Context, n *spindle.Nursery) error {
			if err := spindle.FailAfter(ctx, 20*time.Millisecond, start); !errors.Is(err, spindle.ErrTimeout) {
				t.Error(err)
			}
			return nil
		},
		"Start, cancelled before": func(ctx context.Context, n *spindle.Nursery) error {
			return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				s.Cancel(nil)
				return start(ctx)
			})
		},
		"Spawn": func(ctx context.Context, n *spindle.Nursery) error {
			f := spindle.Spawn(n, never)
			f.Cancel()
			if _, err := f.Await(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			return nil
		},
		"Go": func(ctx context.Context, _ *spindle.Nursery) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.SetLimit(1)
				n.Go(forever)
				n.Go(func(ctx context.Context) error { _, err := never(ctx); return err })
				n.Scope().Cancel(nil)
				n.Go(func(ctx context.Context) error { _, err := never(ctx); return err })
				return nil
			})
		},
		"Go, from outside": func(ctx context.Context, _ *spindle.Nursery) error {
			_, err := spindle.MoveOnAfter(ctx, 20*time.Millisecond, func(ctx context.Context) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.SetLimit(1)
					n.Go(forever)
					n.Go(func(ctx context.Context) error { _, err := never(ctx); return err })
					return nil
				})
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			sim.Test(t, func(ctx context.Context) error {
				n, began := full(ctx), spindle.Now(ctx)
				return errors.Join(test(ctx, n), sooner(ctx, began))
			})
		})
	}
}

// TestHeldTaskBehindAShieldStays until others have ended.
func TestHeldTaskBehindAShieldStays(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		called := false
		_, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) error {
			return spindle.Shield(ctx, func(ctx context.Context) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.SetLimit(1)
					n.Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Minute) })
					n.Go(func(ctx context.Context) error { called = true; return spindle.Sleep(ctx, time.Minute) })
					return nil
				})
			})
		})
		if !called {
			t.Error("the function was not called")
		}
		return err
	})
}
