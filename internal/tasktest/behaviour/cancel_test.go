package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// TestCancelAtAnyTimeOfATasksLife: a cancellation fails the present wait of a task, or its
// next one. A task that has not begun still begins, and one that has ended is not affected.
func TestCancelAtAnyTimeOfATasksLife(t *testing.T) {
	for _, c := range []struct {
		name  string
		when  func(ctx context.Context, cancel func()) error // from outside, the task having been started
		inner bool                                           // the task cancels itself first
		waits int                                            // that go well
	}{
		{"before it starts", func(ctx context.Context, cancel func()) error { cancel(); return nil }, false, 0},
		{"while it runs", func(context.Context, func()) error { return nil }, true, 0},
		{"while it waits", func(ctx context.Context, cancel func()) error {
			err := spindle.Sleep(ctx, 90*time.Second)
			cancel()
			return err
		}, false, 1},
		{"when it has been woken", func(ctx context.Context, cancel func()) error {
			// Its timer is older than this one: it is woken, and has not run.
			spindle.LoopOf(ctx).CallAt(time.Minute, cancel)
			return spindle.Sleep(ctx, time.Minute)
		}, false, 1},
		{"twice", func(ctx context.Context, cancel func()) error {
			err := spindle.Sleep(ctx, 90*time.Second)
			cancel()
			cancel()
			return err
		}, false, 1},
		{"when it has finished", func(ctx context.Context, cancel func()) error {
			err := spindle.Sleep(ctx, time.Hour)
			cancel()
			return err
		}, false, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
				began, waits := false, 0
				var f *spindle.Future[int]
				f = spindle.Spawn(n, func(ctx context.Context) (int, error) {
					began = true
					if c.inner {
						f.Cancel()
					}
					for ; waits < 3; waits++ {
						if err := spindle.Sleep(ctx, time.Minute); err != nil {
							return waits, err
						}
					}
					return waits, nil
				})
				if !c.inner && c.name != "before it starts" {
					if err := spindle.Yield(ctx); err != nil {
						return err
					}
				}
				if err := c.when(ctx, f.Cancel); err != nil {
					return err
				}
				got, err := f.Await(ctx)
				if !began || got != c.waits || errors.Is(err, context.Canceled) != (c.waits < 3) || (err == nil) != (c.waits == 3) {
					t.Errorf("began %v, %d waits, want %d, error %v", began, got, c.waits, err)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCancelOfAScopeThatWasLeft does nothing.
func TestCancelOfAScopeThatWasLeft(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		var left *spindle.Scope
		err := spindle.WithScope(ctx, func(_ context.Context, s *spindle.Scope) error { left = s; return nil })
		left.Cancel(errors.New("too late"))
		left.SetDeadline(spindle.Now(ctx).Add(time.Second))
		left.SetShield(true)
		if left.Caught() || !errors.Is(context.Cause(left), context.Canceled) {
			t.Errorf("caught %v, cause %v", left.Caught(), context.Cause(left))
		}
		if n := spindle.LoopOf(ctx).Stats().Timers; n != 0 {
			t.Errorf("%d timers were set that nothing needs", n)
		}
		return errors.Join(err, spindle.Sleep(ctx, time.Hour))
	})
}

// TestCancellationNamesItsScope: of several scopes around a wait, the one with the earliest
// deadline cancels it, and only that one absorbs the cancellation.
func TestCancellationNamesItsScope(t *testing.T) {
	for _, c := range []struct {
		deadlines [3]time.Duration // from outside to inside
		caused    int
	}{
		{[3]time.Duration{1, 2, 3}, 0},
		{[3]time.Duration{3, 1, 2}, 1},
		{[3]time.Duration{3, 2, 1}, 2},
		{[3]time.Duration{2, 2, 3}, 0}, // together: the outermost, which ends most
		{[3]time.Duration{3, 1, 1}, 1},
	} {
		sim.Test(t, func(ctx context.Context) error {
			var scopes [3]*spindle.Scope
			var enter func(ctx context.Context, depth int) error
			enter = func(ctx context.Context, depth int) error {
				if depth == len(scopes) {
					err := forever(ctx)
					var c2 *spindle.Canceled
					if !errors.As(err, &c2) || c2.Scope != scopes[c.caused] || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v: not caused by scope %d: %v", c.deadlines, c.caused, err)
					}
					return err
				}
				return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
					scopes[depth] = s
					s.SetDeadline(loopTime(s, c.deadlines[depth]*time.Second))
					return enter(ctx, depth+1)
				})
			}
			err := enter(ctx, 0)
			for i, s := range scopes {
				if s.Caught() != (i == c.caused) {
					t.Errorf("%v: scope %d caught: %v", c.deadlines, i, s.Caught())
				}
			}
			if now := spindle.LoopOf(ctx).Time(); now != c.deadlines[c.caused]*time.Second {
				t.Errorf("%v: it came at %v", c.deadlines, now)
			}
			return err
		})
	}
}

// TestOutermostOfTwoCancellationsIsNamed in the error, whichever came first: the code has
// to leave that scope.
func TestOutermostOfTwoCancellationsIsNamed(t *testing.T) {
	for _, innerFirst := range []bool{false, true} {
		sim.Test(t, func(ctx context.Context) error {
			return spindle.WithScope(ctx, func(ctx context.Context, outer *spindle.Scope) error {
				err := spindle.WithScope(ctx, func(ctx context.Context, inner *spindle.Scope) error {
					if innerFirst {
						inner.Cancel(errOther)
					}
					outer.Cancel(errCause)
					inner.Cancel(errOther)
					err := forever(ctx)
					var c *spindle.Canceled
					if !errors.As(err, &c) || c.Scope != outer || c.Cause != errCause {
						t.Errorf("inner first %v: %v", innerFirst, err)
					}
					return err
				})
				if err == nil {
					t.Errorf("inner first %v: taken back inside", innerFirst)
				}
				return err
			})
		})
	}
}

// TestDeadlineMovesWhileATaskWaits: another task moves it.
func TestDeadlineMovesWhileATaskWaits(t *testing.T) {
	for _, c := range []struct {
		name string
		move func(s *spindle.Scope)
		ends time.Duration // of the wait for a minute, in seconds
	}{
		{"not at all", func(*spindle.Scope) {}, 10},
		{"later", func(s *spindle.Scope) { s.SetDeadline(loopTime(s, 20*time.Second)) }, 20},
		{"nearer", func(s *spindle.Scope) { s.SetDeadline(loopTime(s, 6*time.Second)) }, 6},
		{"into the past", func(s *spindle.Scope) { s.SetDeadline(loopTime(s, time.Second)) }, 5},
		{"away", func(s *spindle.Scope) { s.SetDeadline(time.Time{}) }, 60},
		{"away and back", func(s *spindle.Scope) { s.SetDeadline(time.Time{}); s.SetDeadline(loopTime(s, 30*time.Second)) }, 30},
		{"behind the end", func(s *spindle.Scope) { s.SetDeadline(loopTime(s, time.Hour)) }, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
				var scope *spindle.Scope
				n.Go(func(ctx context.Context) error {
					err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
						scope = s
						s.SetDeadline(loopTime(s, 10*time.Second))
						return spindle.Sleep(ctx, time.Minute)
					})
					if now := spindle.LoopOf(ctx).Time(); now != c.ends*time.Second || scope.Caught() != (c.ends < 60) {
						t.Errorf("ended at %v, caught %v", now, scope.Caught())
					}
					return err
				})
				err := spindle.Sleep(ctx, 5*time.Second)
				c.move(scope)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOuterContextInACancelledScope: a wait with the ctx of an outer scope is
// cancelled with the inner one too.
func TestOuterContextInACancelledScope(t *testing.T) {
	sim.Test(t, func(outer context.Context) error {
		return spindle.WithScope(outer, func(_ context.Context, s *spindle.Scope) error {
			s.Cancel(nil)
			if _, err := spindle.NewWaker(outer); err == nil {
				t.Error("NewWaker succeeds")
			}
			return nil
		})
	})
}

// TestBoundWaitsEndInOrder: waits that are bound to another scope end in the order in which
// they began.
func TestBoundWaitsEndInOrder(t *testing.T) {
	for range 20 {
		order := ""
		sim.Test(t, func(ctx context.Context) error {
			return spindle.WithScope(ctx, func(outside context.Context, s *spindle.Scope) error {
				return spindle.WithNursery(outside, func(ctx context.Context, n *spindle.Nursery) error {
					for i := range 6 {
						n.Go(func(ctx context.Context) error {
							return spindle.Shield(ctx, func(ctx context.Context) error {
								spindle.Sleep(outside, time.Hour)
								order += fmt.Sprint(i)
								return nil
							})
						})
					}
					err := spindle.Sleep(ctx, time.Second)
					s.Cancel(nil)
					return err
				})
			})
		})
		if order != "012345" {
			t.Fatalf("order %s", order)
		}
	}
}
