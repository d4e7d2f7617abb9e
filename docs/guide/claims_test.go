package guide_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

func TestMain(m *testing.M) { leak.Main(m) }

// These tests check the claims of the asyncio and Trio pages that the package documentation
// does not make.

var errOops = errors.New("oops")

func forever(ctx context.Context) error { return spindle.Sleep(ctx, math.MaxInt64) }

func TestGatherWaitsForCancelledFunctions(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		cleaned := false
		_, err := spindle.Gather(ctx,
			func(ctx context.Context) (int, error) { return 0, errOops },
			func(ctx context.Context) (int, error) {
				defer func() { cleaned = true }()
				return 0, forever(ctx)
			})
		if err != errOops || !cleaned {
			t.Errorf("error %v, cleaned up %v", err, cleaned)
		}
		return nil
	})
}

func TestOneErrorIsItselfSeveralAreJoined(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		fail := func(context.Context) error { return errOops }
		err := spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
			n.Go(fail)
			n.Go(forever)
			return nil
		})
		if err != errOops {
			t.Errorf("one: %v", err)
		}
		err = spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
			n.Go(fail)
			n.Go(fail)
			return nil
		})
		if several := (*spindle.Errors)(nil); !errors.As(err, &several) || len(several.Errs) != 2 || !errors.Is(err, errOops) {
			t.Errorf("two: %v", err)
		}
		return nil
	})
}

func TestACancelledAwaitLeavesTheTaskAlone(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			f := spindle.Spawn(n, func(ctx context.Context) (int, error) { return 7, spindle.Sleep(ctx, time.Hour) })
			expired, _ := spindle.MoveOnAfter(ctx, time.Minute, func(ctx context.Context) error {
				_, err := f.Await(ctx)
				return err
			})
			if v, err := f.Await(ctx); !expired || v != 7 || err != nil {
				t.Errorf("expired %v, then %v, %v", expired, v, err)
			}
			return nil
		})
	})
}

func TestShieldDelaysTheCallersCancellation(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		begin := spindle.Now(ctx)
		spindle.MoveOnAfter(ctx, time.Minute, func(ctx context.Context) error {
			err := spindle.Shield(ctx, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
			if took := spindle.Now(ctx).Sub(begin); took != time.Hour || err != nil {
				t.Errorf("the shield ended after %v with %v", took, err)
			}
			if err := spindle.Yield(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the next wait: %v", err)
			}
			return nil
		})
		return nil
	})
}

func TestEveryWaitInACancelledScopeFails(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			s.Cancel(nil)
			for range 3 {
				if err := spindle.Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			}
			return nil
		})
	})
}

func TestAScopeAbsorbsWrappedButNotReplacedCancellations(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		expired, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) error {
			return fmt.Errorf("while reading: %w", forever(ctx))
		})
		if !expired || err != nil {
			t.Errorf("wrapped: %v, %v", expired, err)
		}
		expired, err = spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) error {
			forever(ctx)
			return errOops
		})
		if expired || err != errOops {
			t.Errorf("replaced: %v, %v", expired, err)
		}
		return nil
	})
}

func TestATimeOutNeedsAWait(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		err := spindle.FailAfter(ctx, 0, func(context.Context) error { return nil })
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
		err = spindle.FailAfter(ctx, time.Second, forever)
		if !errors.Is(err, spindle.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait: %v", err)
		}
		return nil
	})
}

type key struct{}

func TestValuesComeFromWhereTheNurseryWasOpened(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(context.WithValue(ctx, key{}, 1), func(ctx context.Context, n *spindle.Nursery) error {
			ctx = context.WithValue(ctx, key{}, 2) // n.Go does not see it
			n.Go(func(ctx context.Context) error {
				if v := ctx.Value(key{}); v != 1 {
					t.Errorf("got %v", v)
				}
				return nil
			})
			return spindle.Yield(ctx)
		})
	})
}

func TestAFutureIsCompletedOnce(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		f := spindle.NewFuture[int](ctx)
		if first, second := f.Resolve(1), f.Resolve(2); !first || second {
			t.Errorf("%v, %v", first, second)
		}
		return nil
	})
}

func TestBlockingWaitsAbandonDoesNot(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		for _, c := range []struct {
			name  string
			call  func(context.Context, func() (int, error)) (int, error)
			waits bool
		}{{"Blocking", spindle.Blocking[int], true}, {"Abandon", spindle.Abandon[int], false}} {
			begun, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
			returned := false
			err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				l := spindle.LoopOf(ctx)
				go func() {
					<-begun
					l.Post(func() {
						s.Cancel(nil)
						// Runs after the task, if the cancellation has resumed it.
						l.CallSoon(func() {
							if returned == c.waits {
								t.Errorf("%s has returned: %v", c.name, returned)
							}
							close(goOn)
						})
					})
				}()
				_, err := c.call(ctx, func() (int, error) {
					defer close(ended)
					close(begun)
					<-goOn
					return 0, nil
				})
				returned = true
				return err
			})
			if err != nil {
				return err
			}
			if _, err := spindle.Blocking(ctx, func() (int, error) { <-ended; return 0, nil }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestACancelledStartCancelsTheTask(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		var ended error
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			_, err := spindle.MoveOnAfter(ctx, time.Minute, func(ctx context.Context) error {
				_, err := spindle.Start(ctx, n, func(ctx context.Context, started func(int)) error {
					ended = spindle.Sleep(ctx, time.Hour)
					return ended
				})
				return err
			})
			return err
		})
		if err != nil || !errors.Is(ended, context.Canceled) {
			t.Errorf("error %v, the task ended with %v", err, ended)
		}
		return nil
	})
}

func TestBackgroundTasksEndWithTheRun(t *testing.T) {
	var ended error
	sim.Test(t, func(ctx context.Context) error {
		spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
			ended = forever(ctx)
			return ended
		})
		return spindle.Yield(ctx)
	})
	if !errors.Is(ended, context.Canceled) {
		t.Errorf("it ended with %v", ended)
	}
	err := sim.Run(t.Context(), func(ctx context.Context) error {
		spindle.RootNursery(ctx).Go(func(context.Context) error { return errOops })
		return forever(ctx)
	})
	if err != errOops {
		t.Errorf("after a failure the run ended with %v", err)
	}
}

func TestAPanicContinuesInTheParent(t *testing.T) {
	defer func() {
		if p, ok := recover().(*spindle.PanicError); !ok || p.Value != any("oops") {
			t.Errorf("recovered %v", p)
		}
	}()
	sim.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
			n.Go(func(context.Context) error { panic("oops") })
			return nil
		})
	})
}

func TestReadyTasksRunInOrder(t *testing.T) {
	var order []int
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
			for i := range 3 {
				n.Go(func(ctx context.Context) error {
					order = append(order, i)
					err := spindle.Yield(ctx)
					order = append(order, i)
					return err
				})
			}
			return nil
		})
	})
	if want := []int{0, 1, 2, 0, 1, 2}; !slices.Equal(order, want) {
		t.Errorf("they ran as %v", order)
	}
}

func TestANurseryIsCancelledThroughItsContext(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(forever)
			ctx.(*spindle.Scope).Cancel(nil)
			return nil
		})
	})
}

// panics returns the value that fn panics with.
func panics(fn func()) (value any) {
	defer func() { value = recover() }()
	fn()
	return nil
}

func TestMisuseIsNamed(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		var fromCallback, fromGoroutine any
		spindle.LoopOf(ctx).CallSoon(func() { fromCallback = panics(func() { spindle.Yield(ctx) }) })
		spindle.Yield(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			fromGoroutine = panics(func() { spindle.Yield(ctx) })
		}()
		<-done
		for _, said := range []any{fromCallback, fromGoroutine, panics(func() { cosync.NewQueue[int](0) }), panics(func() { new(cosync.Mutex).Unlock() })} {
			if _, ok := said.(string); !ok {
				t.Errorf("the panic has no message: %v", said)
			}
		}
		return nil
	})
}

func TestAnyTaskMayUnlock(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		var mu cosync.Mutex
		if err := mu.Lock(ctx); err != nil {
			return err
		}
		return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
			n.Go(func(context.Context) error { mu.Unlock(); return nil })
			return nil
		})
	})
}

func TestATaskCanBeStartedFromAGoroutineByPost(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		var l *loop.Loop = spindle.LoopOf(ctx)
		var ran cosync.Event
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			go l.Post(func() {
				n.Go(func(context.Context) error { ran.Set(); return nil })
			})
			return ran.Wait(ctx)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}
