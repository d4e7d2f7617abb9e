package contexts_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/sim"
)

// TestDerivingWhileAScopeIsCancelled derives contexts on a goroutine while the
// scope is cancelled on the loop.
func TestDerivingWhileAScopeIsCancelled(t *testing.T) {
	await := func(ctx context.Context, ch chan error) error {
		_, err := spindle.Blocking(ctx, func() (any, error) { return nil, <-ch })
		return err
	}
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		for range short.Of(100) {
			begun, derived := make(chan error), make(chan error, 1)
			err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				go func() { derived <- derive(ctx, begun) }()
				err := await(ctx, begun)
				s.Cancel(nil)
				return err
			})
			if err != nil {
				return err
			}
			if err := await(ctx, derived); err != context.Canceled {
				return fmt.Errorf("a context derived from a cancelled scope has the error %v", err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// derive derives contexts until ctx has ended, and returns the error of the last. It
// closes begun when it has begun.
func derive(ctx context.Context, begun chan error) error {
	for i := 0; ; i++ {
		last, cancel := context.WithCancel(ctx)
		_, end := context.WithTimeout(context.WithValue(ctx, contextKey("a"), i), time.Hour)
		context.AfterFunc(ctx, func() {})()
		err := last.Err()
		cancel()
		end()
		if i == 10 {
			close(begun)
		}
		if err != nil {
			return err
		}
	}
}

// TestScopeInsideACancelledScopeIsDone, in whichever way it is opened.
func TestScopeInsideACancelledScopeIsDone(t *testing.T) {
	const ended = "done true, err context canceled, cause the cause"
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(outside context.Context, outer *spindle.Scope) error {
			outer.Cancel(errCause)
			want := func(way string, ctx context.Context) error {
				derived, cancel := context.WithCancel(ctx)
				defer cancel()
				if got := account(ctx); got != ended || account(derived) != ended {
					t.Errorf("%s: %s; derived from it: %s", way, got, account(derived))
				}
				return nil
			}
			spindle.WithScope(outside, func(ctx context.Context, _ *spindle.Scope) error { return want("WithScope", ctx) })
			spindle.WithScope(context.WithValue(outside, contextKey("a"), 1), func(ctx context.Context, _ *spindle.Scope) error {
				return want("WithScope with a value", ctx)
			})
			derived, cancel := context.WithCancel(outside)
			defer cancel()
			spindle.WithScope(derived, func(ctx context.Context, _ *spindle.Scope) error { return want("WithScope, derived", ctx) })
			spindle.MoveOnAfter(outside, time.Hour, func(ctx context.Context) error { return want("MoveOnAfter", ctx) })
			return spindle.WithNursery(outside, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(func(ctx context.Context) error { return want("Nursery.Go", ctx) })
				n.GoWith(spindle.TaskOptions{Values: ctx}, func(ctx context.Context) error { return want("Nursery.GoWith", ctx) })
				spindle.Spawn(n, func(ctx context.Context) (int, error) { return 0, want("Spawn", ctx) })
				return want("WithNursery", ctx)
			})
		})
	})
}

// TestShieldAfterACancellation: waits succeed again, but the context stays cancelled.
func TestShieldAfterACancellation(t *testing.T) {
	const ended = "done true, err context canceled, cause the cause"
	sim.Test(t, func(ctx context.Context) error {
		err := spindle.WithScope(ctx, func(ctx context.Context, outer *spindle.Scope) error {
			return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				before, cancel := context.WithCancel(ctx)
				defer cancel()
				outer.Cancel(errCause)
				s.SetShield(true)
				after, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				for name, c := range map[string]context.Context{"the scope": ctx, "derived before": before, "derived after": after} {
					if got := account(c); got != ended {
						t.Errorf("%s: %s", name, got)
					}
				}
				if err := spindle.Sleep(ctx, time.Second); err != nil {
					t.Errorf("a wait behind the shield: %v", err)
				}
				if err := spindle.Sleep(context.WithValue(ctx, contextKey("a"), 1), time.Second); err != nil {
					t.Errorf("a wait behind the shield, with a value: %v", err)
				}
				if err := spindle.Sleep(after, time.Second); !errors.Is(err, errCause) {
					t.Errorf("a wait with a derived context that has ended: %v", err)
				}
				// A scope inside is derived from one that has ended; its waits go on too.
				err := spindle.WithScope(ctx, func(ctx context.Context, _ *spindle.Scope) error {
					if got := account(ctx); got != ended {
						t.Errorf("a scope inside: %s", got)
					}
					return spindle.Sleep(ctx, time.Second)
				})
				if err != nil {
					t.Errorf("a wait in a scope behind the shield: %v", err)
				}
				s.Cancel(errOther) // the cause was fixed before
				if got := account(ctx); got != ended {
					t.Errorf("cancelled once more: %s", got)
				}
				s.SetShield(false)
				return spindle.Sleep(ctx, time.Second)
			})
		})
		return err
	})
}

// TestShieldBeforeACancellation: the context does not end until the shield is removed. The
// functions Grace and Shield set it before the scope can inherit a cancellation.
func TestShieldBeforeACancellation(t *testing.T) {
	const open, ended = "done false, err <nil>, cause <nil>", "done true, err context canceled, cause the cause"
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(outside context.Context, outer *spindle.Scope) error {
			err := spindle.WithScope(outside, func(ctx context.Context, s *spindle.Scope) error {
				s.SetShield(true)
				inside := func(ctx context.Context, want string) {
					spindle.WithScope(ctx, func(ctx context.Context, _ *spindle.Scope) error {
						if got := account(ctx); got != want {
							t.Errorf("a scope inside: %s", got)
						}
						return nil
					})
				}
				derived, cancel := context.WithCancel(ctx)
				defer cancel()
				outer.Cancel(errCause)
				if got := account(ctx); got != open || account(derived) != open {
					t.Errorf("behind a shield: %s; derived: %s", got, account(derived))
				}
				inside(ctx, open)
				s.SetShield(false)
				if got := account(ctx); got != ended || account(derived) != ended {
					t.Errorf("the shield was lifted: %s; derived: %s", got, account(derived))
				}
				inside(ctx, ended)
				return nil
			})
			cleanUp := func(ctx context.Context) error {
				derived, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				if got := account(ctx); got != open || account(derived) != open {
					t.Errorf("cleaning up: %s; derived: %s", got, account(derived))
				}
				return spindle.Sleep(derived, time.Second)
			}
			return errors.Join(err, spindle.Grace(outside, time.Hour, cleanUp), spindle.Shield(outside, cleanUp))
		})
	})
}

// TestScopeThatOutlivesItsParentEndsWithIt: a task may open a scope with the
// context of another task.
func TestScopeThatOutlivesItsParentEndsWithIt(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			ended := false
			err := spindle.WithScope(ctx, func(theirs context.Context, _ *spindle.Scope) error {
				n.Go(func(context.Context) error {
					spindle.WithScope(theirs, func(ctx context.Context, _ *spindle.Scope) error {
						err := spindle.Sleep(ctx, time.Hour)
						ended = errors.Is(err, context.Canceled) && ctx.Err() == context.Canceled
						return err
					})
					return nil
				})
				return spindle.Sleep(theirs, time.Second)
			})
			if err != nil {
				return err
			}
			if err := spindle.Sleep(ctx, time.Second); err != nil || !ended {
				t.Errorf("%v; ended with the scope around it: %v", err, ended)
			}
			return nil
		})
	})
}

// TestDeadlineOfAStandardContextUnderAScope applies in the scope.
func TestDeadlineOfAStandardContextUnderAScope(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		begin := time.Now()
		want := func(ctx context.Context, d time.Duration) {
			t.Helper()
			when, ok := ctx.Deadline()
			if got := when.Sub(begin); ok != (d != 0) || ok && got != d {
				t.Errorf("deadline %v, %v, want %v", got, ok, d)
			}
		}
		return spindle.WithScope(ctx, func(ctx context.Context, outer *spindle.Scope) error {
			derived, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			cancelable, cancel := context.WithCancel(context.WithValue(ctx, contextKey("a"), 1))
			defer cancel()
			return spindle.WithScope(cancelable, func(plain context.Context, _ *spindle.Scope) error {
				want(plain, 0)
				err := spindle.WithScope(derived, func(ctx context.Context, s *spindle.Scope) error {
					want(ctx, time.Hour)
					s.SetDeadline(loopTime(s, 2*time.Hour))
					want(ctx, time.Hour)
					s.SetDeadline(loopTime(s, time.Minute))
					want(ctx, time.Minute)
					outer.SetDeadline(loopTime(outer, time.Second)) // moved after derived was made
					want(ctx, time.Second)
					want(plain, time.Second)
					outer.SetDeadline(loopTime(outer, 2*time.Hour))
					want(ctx, time.Minute)
					want(plain, 2*time.Hour)
					s.SetDeadline(time.Time{})
					want(ctx, time.Hour)
					s.SetShield(true)
					want(ctx, 0)
					s.SetShield(false)
					return spindle.Sleep(ctx, 90*time.Minute)
				})
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Hour {
					t.Errorf("%v after %v", err, time.Since(begin))
				}
				return nil
			})
		})
	})
}

// TestDeadlineOfDeeplyNestedContexts takes time in proportion to their number.
func TestDeadlineOfDeeplyNestedContexts(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		var nest func(ctx context.Context, depth int) error
		nest = func(ctx context.Context, depth int) error {
			if depth == 0 {
				if when, ok := ctx.Deadline(); !ok || time.Until(when) != time.Hour {
					t.Errorf("deadline %v, %v", when, ok)
				}
				return nil
			}
			derived, cancel := context.WithTimeout(ctx, time.Duration(depth)*time.Hour)
			defer cancel()
			return spindle.WithScope(derived, func(ctx context.Context, _ *spindle.Scope) error { return nest(ctx, depth-1) })
		}
		return nest(ctx, 40)
	})
}

// TestStandardTimeoutIsADeadlineInside: a scope under a standard context that
// timed out has its error, as a derived context would.
func TestStandardTimeoutIsADeadlineInside(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		derived, cancel := context.WithTimeoutCause(ctx, time.Second, errCause)
		defer cancel()
		return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
			return spindle.WithScope(derived, func(ctx context.Context, _ *spindle.Scope) error {
				left, cancel := context.WithCancel(ctx)
				defer cancel()
				err := spindle.Sleep(ctx, time.Hour)
				var c *spindle.Canceled
				if !errors.As(err, &c) || !c.Timeout() || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errCause) {
					t.Errorf("error %v", err)
				}
				const want = "done true, err context deadline exceeded, cause the cause"
				if got := account(ctx); got != want || account(left) != want {
					t.Errorf("%s; derived: %s", got, account(left))
				}
				return nil
			})
		})
	})
}

// TestDerivedBehindAValueStartNoGoroutine: the context package also links a
// context directly to the scope that is derived through context.WithValue.
func TestDerivedBehindAValueStartNoGoroutine(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			before := contextWatchers()
			derived, cancel := context.WithCancel(context.WithValue(ctx, contextKey("a"), 1))
			defer cancel()
			if n := contextWatchers(); n != before {
				t.Errorf("%d goroutines of the context package before, %d after", before, n)
			}
			s.Cancel(errCause)
			if got := context.Cause(derived); got != errCause { // at once: no goroutine has to run
				t.Errorf("cause %v", got)
			}
			return nil
		})
	})
}

func TestKeysOfAnyTypeAreFound(t *testing.T) {
	key := new(int)
	sim.Run(context.WithValue(t.Context(), key, "v"), func(ctx context.Context) error {
		if ctx.Value(key) != "v" {
			t.Errorf("%v", ctx.Value(key))
		}
		return nil
	})
}

// TestShieldFromADerivedContext of the standard library that is cancelled already.
func TestShieldFromADerivedContext(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		derived, cancel := context.WithCancel(ctx)
		cancel()
		if err := spindle.Shield(derived, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) }); err != nil {
			t.Errorf("shielded: %v", err)
		}
		err := spindle.WithScope(derived, func(ctx context.Context, s *spindle.Scope) error { return forever(ctx) })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("not shielded: %v", err)
		}
		return nil
	})
}
