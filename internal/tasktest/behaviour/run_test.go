package behaviour_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

func TestRunReturnsTheResult(t *testing.T) {
	boom := errors.New("boom")
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
		return boom
	})
	if err != boom {
		t.Fatal(err)
	}
}

func TestNurserySmoke(t *testing.T) {
	order := ""
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for _, s := range []string{"a", "b", "c"} {
				n.Go(func(ctx context.Context) error {
					for range 3 {
						order += s
						if err := spindle.Yield(ctx); err != nil {
							return err
						}
					}
					return nil
				})
			}
			return nil
		})
	})
	if err != nil || order != "abcabcabc" {
		t.Fatal(err, order)
	}
}

func TestFirstFailureCancels(t *testing.T) {
	boom := errors.New("boom")
	var other error
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { other = spindle.Sleep(ctx, time.Hour); return other })
			n.Go(func(ctx context.Context) error { spindle.Sleep(ctx, time.Millisecond); return boom })
			return nil
		})
	})
	if err != boom || !errors.Is(other, context.Canceled) {
		t.Fatal(err, other)
	}
}

func TestTimeouts(t *testing.T) {
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		expired, err := spindle.MoveOnAfter(ctx, time.Millisecond, func(ctx context.Context) error {
			return spindle.Sleep(ctx, time.Hour)
		})
		if !expired || err != nil {
			t.Error(expired, err)
		}
		return spindle.FailAfter(ctx, time.Millisecond, func(ctx context.Context) error {
			return spindle.Sleep(ctx, time.Hour)
		})
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestCtxCancelsRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	err := spindle.Run(ctx, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

// TestRunThatHasEndedTakesNoMoreTasks: not even in the turn in which it ends, when
// no call would wait for them.
func TestRunThatHasEndedTakesNoMoreTasks(t *testing.T) {
	var background *spindle.Nursery
	looked, ended := false, false
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		background = spindle.RootNursery(ctx)
		spindle.LoopOf(ctx).Post(func() { looked, ended = true, background.Ended() })
		return spindle.Yield(ctx) // its next turn is the callback's too, and comes first
	})
	if err != nil || !looked || !ended {
		t.Errorf("looked %v, ended %v, %v", looked, ended, err)
	}
}

// TestContextThatEndsWithTheRun: its end is not lost work. It can come before or after the
// end of the run.
func TestContextThatEndsWithTheRun(t *testing.T) {
	for range 300 {
		err := spindle.Run(t.Context(), func(ctx context.Context) error {
			inner, cancel := context.WithCancel(ctx)
			var lot spindle.Lot
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(func(context.Context) error { return lot.Wait(inner, "nothing") })
				n.Go(func(context.Context) error {
					return spindle.Shield(inner, func(ctx context.Context) error { return lot.Wait(ctx, "nothing") })
				})
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
				cancel()
				lot.Wake(2)
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestContextEndsAsTheRunDoes: a cancellation that comes too late is not lost work.
func TestContextEndsAsTheRunDoes(t *testing.T) {
	for range short.Of(2000) {
		ctx, cancel := context.WithCancel(context.Background())
		err := spindle.Run(ctx, func(ctx context.Context) error { cancel(); return nil })
		if err != nil && err != context.Canceled {
			t.Fatal(err)
		}
	}
}

// TestLoopIsLeftAsItWasFound: it can be used again, and a run leaves nothing in it.
func TestLoopIsLeftAsItWasFound(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		done := make(chan error) // each time from another goroutine
		go func() {
			done <- spindle.Options{On: l}.Run(t.Context(), func(ctx context.Context) error {
				spindle.RootNursery(ctx).Go(forever)
				return spindle.Sleep(ctx, time.Microsecond)
			})
		}()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if s := l.Stats(); s.Timers != 0 || s.Ready != 0 || s.FDs != 0 {
			t.Fatalf("left in the loop: %+v", s)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRunOnALoopSeveralTimes: runs share a loop, which keeps callbacks and timers in between.
func TestRunOnALoopSeveralTimes(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var loops []*loop.Loop
	for range 2 {
		called := false
		l.CallSoon(func() { called = true })
		if err := (spindle.Options{On: l}).Run(t.Context(), func(ctx context.Context) error {
			loops = append(loops, spindle.LoopOf(ctx))
			return spindle.Yield(ctx)
		}); err != nil {
			t.Fatal(err)
		}
		if !called {
			t.Error("a callback from before the run was not called")
		}
	}
	if loops[0] != l || loops[1] != l {
		t.Error("the runs were on other loops")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); !errors.Is(err, loop.ErrClosed) {
		t.Errorf("the second Close: %v", err)
	}
}

// TestRunInATask is named: the task's own loop would be blocked. In a goroutine that
// the task waits for it is allowed.
func TestRunInATask(t *testing.T) {
	nothing := func(context.Context) error { return nil }
	sim.Test(t, func(ctx context.Context) error {
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		for name, ctx := range map[string]context.Context{"its ctx": ctx, "a derived one": derived} {
			func() {
				defer func() {
					if got, _ := recover().(string); !strings.Contains(got, "Run called in a task") {
						t.Errorf("with %s: panic %q", name, got)
					}
				}()
				spindle.Run(ctx, nothing)
				t.Errorf("with %s: it runs", name)
			}()
		}
		return nil
	})
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		_, err := spindle.Blocking(ctx, func() (int, error) { return 0, spindle.Run(ctx, nothing) })
		return err
	})
	if err != nil {
		t.Errorf("in a goroutine: %v", err)
	}
}

// TestFireAndForgetTasksAreHeld: only the run refers to them, and they survive every
// garbage collection.
func TestFireAndForgetTasksAreHeld(t *testing.T) {
	ended := 0
	sim.Test(t, func(ctx context.Context) error {
		for i := range 100 {
			spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
				err := spindle.Sleep(ctx, time.Duration(i)*time.Second)
				ended++
				return err
			})
		}
		for range 3 {
			if err := spindle.Sleep(ctx, 33*time.Second); err != nil {
				return err
			}
			runtime.GC()
		}
		return spindle.Sleep(ctx, time.Second)
	})
	if ended != 100 {
		t.Errorf("%d of 100 ended", ended)
	}
}

// TestFireAndForgetTasksEndWithTheRun: they are cancelled and may clean up, and
// their errors are not lost.
func TestFireAndForgetTasksEndWithTheRun(t *testing.T) {
	cleaned := false
	boom := errors.New("boom")
	err := sim.Run(t.Context(), func(ctx context.Context) error {
		spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
			if err := forever(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			err := spindle.Grace(ctx, time.Second, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Millisecond) })
			cleaned = err == nil
			return boom
		})
		return spindle.Yield(ctx)
	})
	if err != boom || !cleaned {
		t.Errorf("%v, cleaned up %v", err, cleaned)
	}
}

// TestFireAndForgetFailureEndsTheRun with its error.
func TestFireAndForgetFailureEndsTheRun(t *testing.T) {
	boom := errors.New("boom")
	err := sim.Run(t.Context(), func(ctx context.Context) error {
		spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
			return errors.Join(spindle.Sleep(ctx, time.Minute), boom)
		})
		err := forever(ctx)
		if now := spindle.LoopOf(ctx).Time(); now != time.Minute {
			t.Errorf("%v at %v", err, now)
		}
		return err
	})
	if !errors.Is(err, boom) || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestStopDuringRun: the run fails, but not before its tasks have ended.
func TestStopDuringRun(t *testing.T) {
	cleaned := 0
	wait := func(ctx context.Context) error {
		defer func() {
			spindle.Grace(ctx, time.Minute, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Millisecond) })
			cleaned++
		}()
		return forever(ctx)
	}
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		spindle.RootNursery(ctx).Go(wait)
		spindle.LoopOf(ctx).CallSoon(spindle.LoopOf(ctx).Stop)
		return wait(ctx)
	})
	if err == nil || !strings.Contains(err.Error(), "stopped") || strings.Count(err.Error(), "): waiting for ") != 2 || cleaned != 2 {
		t.Errorf("%d tasks have cleaned up: %v", cleaned, err)
	}
}
