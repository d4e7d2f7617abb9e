package behaviour_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

func TestCancelBeforeAWait(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		cause := errors.New("the cause")
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			s.Cancel(cause)
			s.Cancel(errors.New("too late")) // only the first counts
			err := spindle.Sleep(ctx, time.Hour)
			var c *spindle.Canceled
			if !errors.As(err, &c) || c.Scope != s || !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
				t.Errorf("error %v", err)
			}
			if got := context.Cause(ctx); got != cause || ctx.Err() != context.Canceled {
				t.Errorf("cause %v, err %v", got, ctx.Err())
			}
			return err
		})
	})
}

func TestIgnoredCancellationComesAgain(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			s.Cancel(nil)
			for i := range 3 {
				if err := spindle.Yield(ctx); err == nil {
					t.Errorf("wait %d in a cancelled scope did not fail", i)
				}
			}
			return nil
		})
	})
}

func TestScopeTakesBackOnlyItsOwn(t *testing.T) {
	other := errors.New("something else")
	sim.Test(t, func(ctx context.Context) error {
		var inner, outer *spindle.Scope
		err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			outer = s
			err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				inner = s
				outer.Cancel(nil)
				return forever(ctx)
			})
			if err == nil || inner.Caught() {
				t.Error("the inner scope took back the outer one's cancellation")
			}
			return err
		})
		if err != nil || !outer.Caught() {
			t.Errorf("outer: %v, caught %v", err, outer.Caught())
		}
		// An error that comes together with the cancellation is kept.
		err = spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			s.Cancel(nil)
			return errors.Join(forever(ctx), other)
		})
		if !errors.Is(err, other) {
			t.Errorf("lost: %v", err)
		}
		return nil
	})
}

func TestNearestDeadlineWins(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		begin := spindle.Now(ctx)
		outer, err := spindle.MoveOnAfter(ctx, 2*time.Second, func(ctx context.Context) error {
			inner, err := spindle.MoveOnAfter(ctx, time.Second, forever)
			if !inner || err != nil || spindle.Now(ctx).Sub(begin) != time.Second {
				t.Errorf("inner: expired %v, %v after %v", inner, err, spindle.Now(ctx).Sub(begin))
			}
			inner, err = spindle.MoveOnAfter(ctx, time.Hour, forever)
			if inner {
				t.Error("the outer deadline was taken for the inner one")
			}
			return err
		})
		if !outer || err != nil || spindle.Now(ctx).Sub(begin) != 2*time.Second {
			t.Errorf("outer: expired %v, %v after %v", outer, err, spindle.Now(ctx).Sub(begin))
		}
		err = spindle.FailAfter(ctx, time.Second, forever)
		if !errors.Is(err, spindle.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("FailAfter: %v", err)
		}
		return spindle.FailAfter(ctx, time.Second, func(ctx context.Context) error { return spindle.Yield(ctx) })
	})
}

func TestDeadlineMoves(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			begin := spindle.Now(ctx)
			s.SetDeadline(begin.Add(time.Second))
			s.SetDeadline(begin.Add(time.Minute)) // later
			if err := spindle.Sleep(ctx, 30*time.Second); err != nil {
				t.Errorf("a deadline that was moved cancelled: %v", err)
			}
			s.SetDeadline(time.Time{})
			if err := spindle.Sleep(ctx, time.Hour); err != nil {
				t.Errorf("a deadline that was removed cancelled: %v", err)
			}
			s.SetDeadline(begin) // into the past
			err := spindle.Yield(ctx)
			if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != context.DeadlineExceeded {
				t.Errorf("past deadline: %v, %v", err, ctx.Err())
			}
			return err
		})
	})
}

func TestShield(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(ctx context.Context, outer *spindle.Scope) error {
			err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				s.SetShield(true)
				outer.Cancel(nil)
				if err := spindle.Sleep(ctx, time.Hour); err != nil || ctx.Err() != nil {
					t.Errorf("the shield let %v through", err)
				}
				s.SetShield(false) // delivers at once
				return spindle.Yield(ctx)
			})
			if err == nil {
				t.Error("a cancellation was lost behind the shield")
			}
			if err := spindle.Grace(ctx, time.Minute, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Second) }); err != nil {
				t.Errorf("cleaning up: %v", err)
			}
			before := spindle.Now(ctx)
			if err := spindle.Grace(ctx, time.Minute, forever); !errors.Is(err, spindle.ErrTimeout) || spindle.Now(ctx).Sub(before) != time.Minute {
				t.Errorf("cleaning up for ever: %v after %v", err, spindle.Now(ctx).Sub(before))
			}
			return err
		})
	})
}

// TestOuterContextReachesBehindAShield: a wait ends with its context, also where
// the task's own scope is shielded from it.
func TestOuterContextReachesBehindAShield(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(outside context.Context, outer *spindle.Scope) error {
			outer.SetDeadline(spindle.Now(ctx).Add(time.Second))
			return spindle.WithScope(outside, func(inside context.Context, s *spindle.Scope) error {
				s.SetShield(true)
				if err := spindle.Sleep(outside, time.Hour); !errors.Is(err, context.DeadlineExceeded) || spindle.LoopOf(ctx).Time() != time.Second {
					t.Errorf("%v at %v", err, spindle.LoopOf(ctx).Time())
				}
				return spindle.Sleep(inside, time.Second) // not cancelled
			})
		})
	})
}

// TestUnshieldingWakesAWaiter: another task removes the shield while one waits.
func TestUnshieldingWakesAWaiter(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var shield *spindle.Scope
			n.Go(func(ctx context.Context) error {
				return spindle.WithScope(ctx, func(ctx context.Context, outer *spindle.Scope) error {
					outer.Cancel(nil)
					return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
						s.SetShield(true)
						shield = s
						return forever(ctx)
					})
				})
			})
			if err := spindle.Sleep(ctx, time.Second); err != nil {
				return err
			}
			shield.SetShield(false)
			return nil
		})
	})
}

func TestStandardContextsOverAScope(t *testing.T) {
	type key struct{}
	sim.Test(t, func(ctx context.Context) error {
		cause := errors.New("the cause")
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			derived, cancel := context.WithCancel(context.WithValue(ctx, key{}, "value"))
			defer cancel()
			if derived.Value(key{}) != "value" {
				t.Error("a value was lost")
			}
			called := make(chan struct{})
			context.AfterFunc(ctx, func() { close(called) })
			s.Cancel(cause)
			<-derived.Done()
			<-called
			if derived.Err() != context.Canceled || context.Cause(derived) != cause {
				t.Errorf("derived: %v, cause %v", derived.Err(), context.Cause(derived))
			}
			return spindle.Sleep(derived, time.Hour)
		})
	})
	// A wait on a derived context ends with it, and only the wait.
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		derived, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if err := spindle.Sleep(derived, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("derived time-out: %v", err)
		}
		if _, ok := derived.Deadline(); !ok {
			t.Error("no deadline")
		}
		return spindle.Yield(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestScopeTakesItsOwnOutOfSeveral errors, and the others remain.
func TestScopeTakesItsOwnOutOfSeveral(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		boom := errors.New("boom")
		var scope *spindle.Scope
		err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			scope = s
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(forever)
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
				s.Cancel(nil)
				return boom
			})
		})
		if err != boom || !scope.Caught() {
			t.Errorf("%v, caught %v", err, scope.Caught())
		}
		return nil
	})
}

// TestScopeMakesNoContextUnasked: a scope costs one allocation. Its standard
// context is made only when it is first needed.
func TestScopeMakesNoContextUnasked(t *testing.T) {
	nothing := func(ctx context.Context) error { return ctx.Err() }
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		for _, c := range []struct {
			name string
			most float64
			open func()
		}{
			{"WithScope", 1, func() {
				spindle.WithScope(ctx, func(ctx context.Context, _ *spindle.Scope) error { return nothing(ctx) })
			}},
			{"Shield", 1, func() { spindle.Shield(ctx, nothing) }},
			{"MoveOnAfter", 2, func() { spindle.MoveOnAfter(ctx, time.Hour, nothing) }},
			{"FailAfter", 2, func() { spindle.FailAfter(ctx, time.Hour, nothing) }},
			{"WithNursery", 2, func() {
				spindle.WithNursery(ctx, func(ctx context.Context, _ *spindle.Nursery) error { return nothing(ctx) })
			}},
		} {
			if n := testing.AllocsPerRun(100, c.open); n > c.most {
				t.Errorf("%s: %v allocations, want %v", c.name, n, c.most)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestOuterContextDoesNotEscapeTheInnerScope: a scope that is opened with an outer context,
// or with one of another task, is still inside the innermost scope of its task.
func TestOuterContextDoesNotEscapeTheInnerScope(t *testing.T) {
	waits := map[string]func(context.Context) error{
		"WithScope": func(ctx context.Context) error {
			return spindle.WithScope(ctx, func(ctx context.Context, _ *spindle.Scope) error { return forever(ctx) })
		},
		"WithScope, with a derived context": func(ctx context.Context) error {
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			return spindle.WithScope(derived, func(ctx context.Context, _ *spindle.Scope) error { return forever(ctx) })
		},
		"WithNursery": func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(forever)
				return nil
			})
		},
		"Gather": func(ctx context.Context) error {
			_, err := spindle.Gather(ctx, func(ctx context.Context) (int, error) { return 0, forever(ctx) })
			return err
		},
	}
	shield := func(ctx context.Context, fn func(context.Context) error) error { return spindle.Shield(ctx, fn) }
	plain := func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }
	for name, wait := range waits {
		for _, between := range []func(context.Context, func(context.Context) error) error{plain, shield} {
			sim.Test(t, func(outer context.Context) error {
				begin := spindle.Now(outer)
				err := between(outer, func(ctx context.Context) error {
					expired, err := spindle.MoveOnAfter(ctx, time.Second, func(context.Context) error { return wait(outer) })
					if !expired || spindle.Now(outer).Sub(begin) != time.Second {
						t.Errorf("%s: expired %v, %v after %v", name, expired, err, spindle.Now(outer).Sub(begin))
					}
					return err
				})
				if err != nil {
					return err
				}
				return spindle.WithNursery(outer, func(ctx context.Context, n *spindle.Nursery) error {
					return spindle.WithScope(ctx, func(theirs context.Context, _ *spindle.Scope) error {
						f := spindle.Spawn(n, func(context.Context) (int, error) { return 0, wait(theirs) })
						if err := spindle.Sleep(ctx, time.Second); err != nil {
							return err
						}
						f.Cancel()
						_, err := f.Await(ctx)
						if spindle.Now(outer).Sub(begin) != 2*time.Second || !errors.Is(err, context.Canceled) {
							t.Errorf("%s in another task: %v after %v", name, err, spindle.Now(outer).Sub(begin))
						}
						return nil
					})
				})
			})
		}
	}
}

// TestOuterContextCountsInTheInnerScope: the scope is cancelled with the context that
// it was opened with, also from behind a shield.
func TestOuterContextCountsInTheInnerScope(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(outside context.Context, outer *spindle.Scope) error {
			outer.SetDeadline(spindle.Now(ctx).Add(time.Second))
			return spindle.Shield(outside, func(inside context.Context) error {
				err := spindle.WithScope(outside, func(ctx context.Context, _ *spindle.Scope) error { return forever(ctx) })
				var c *spindle.Canceled
				if !errors.As(err, &c) || c.Scope != outer || spindle.LoopOf(ctx).Time() != time.Second {
					t.Errorf("%v at %v", err, spindle.LoopOf(ctx).Time())
				}
				return spindle.Sleep(inside, time.Second) // not cancelled
			})
		})
	})
}

// TestScopeInAnotherRun is cancelled with that run, and with the task's own.
func TestScopeInAnotherRun(t *testing.T) {
	for name, which := range map[string]func(own, other *spindle.Scope) *spindle.Scope{
		"own":   func(own, _ *spindle.Scope) *spindle.Scope { return own },
		"other": func(_, other *spindle.Scope) *spindle.Scope { return other },
	} {
		t.Run(name, func(t *testing.T) {
			sim.Test(t, func(ctx context.Context) error {
				return spindle.WithScope(ctx, func(ctx context.Context, other *spindle.Scope) error {
					cause, got := errors.New("cause"), errors.New("not ended")
					spindle.RunOn(t.Context(), spindle.LoopOf(ctx), func(own context.Context) error {
						spindle.LoopOf(own).CallLater(time.Second, func() { which(spindle.ScopeOf(own), other).Cancel(cause) })
						got = spindle.WithScope(ctx, func(ctx context.Context, _ *spindle.Scope) error { return forever(ctx) })
						return nil
					}, nil)
					spindle.Grace(ctx, time.Minute, func(ctx context.Context) error { return spindle.Sleep(ctx, 2*time.Second) })
					if !errors.Is(got, cause) {
						t.Errorf("got %v", got)
					}
					return nil
				})
			})
		})
	}
}
