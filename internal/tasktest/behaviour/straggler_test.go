package behaviour_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// stragglers returns the names of tasks in an error that wraps ErrStragglers; none if it does not.
func stragglers(err error) (names []string) {
	if !errors.Is(err, spindle.ErrStragglers) {
		return nil
	}
	_, list, _ := strings.Cut(err.Error(), spindle.ErrStragglers.Error()+": [")
	list, _, _ = strings.Cut(list, "]")
	for _, name := range strings.Split(list, " ") {
		names = append(names, strings.Trim(name, `"`))
	}
	return names
}

// TestIgnoredCancellationIsLogged: when a task is first slowed down because it keeps
// waiting in a cancelled scope, it is logged by name, once.
func TestIgnoredCancellationIsLogged(t *testing.T) {
	for _, c := range []struct {
		name string
		task func(ctx context.Context, s *spindle.Scope)
		want int
	}{
		{"cleans up with a few waits", func(ctx context.Context, s *spindle.Scope) {
			s.Cancel(nil)
			for range 16 {
				spindle.Yield(ctx)
			}
		}, 0},
		{"ignores it", func(ctx context.Context, s *spindle.Scope) {
			s.Cancel(nil)
			for range 19 {
				spindle.Yield(ctx)
			}
		}, 1},
		{"ignores it twice", func(ctx context.Context, s *spindle.Scope) {
			s.Cancel(nil)
			for range 2 {
				for range 18 {
					spindle.Sleep(ctx, time.Hour)
				}
				spindle.Shield(ctx, spindle.Yield)
			}
		}, 1},
		{"joins cancelled nurseries", func(ctx context.Context, s *spindle.Scope) {
			s.Cancel(nil)
			for range 19 {
				spindle.WithNursery(ctx, func(context.Context, *spindle.Nursery) error { return nil })
			}
		}, 1},
		{"polls with timeouts of zero", func(ctx context.Context, _ *spindle.Scope) {
			for range 40 {
				spindle.MoveOnAfter(ctx, 0, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
			}
		}, 0},
		{"other waits go well, with a derived context", func(ctx context.Context, _ *spindle.Scope) {
			live, cancel := context.WithCancel(ctx)
			defer cancel()
			ended, end := context.WithCancel(ctx)
			end()
			for range 40 {
				spindle.Yield(ended)
				spindle.Yield(live)
			}
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			o := spindle.Options{ErrorLog: slog.New(slog.NewTextHandler(&log, nil))}
			err := o.Run(t.Context(), func(ctx context.Context) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.GoWith(spindle.TaskOptions{Name: "stubborn"}, func(ctx context.Context) error {
						return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
							c.task(ctx, s)
							return nil
						})
					})
					return nil
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(log.String(), "ignores its cancellation"); n != c.want || n != strings.Count(log.String(), "task=stubborn function=straggler_test.go:") {
				t.Errorf("logged %d times, want %d:\n%s", n, c.want, log.String())
			}
		})
	}
}

// TestIgnoredCancellationDoesNotSpin: waits that fail at once because their scope is
// cancelled let other tasks run, and then slow down. The test counts the waits in the five
// seconds of Grace.
func TestIgnoredCancellationDoesNotSpin(t *testing.T) {
	for name, wait := range map[string]func(context.Context) error{
		"Sleep":      func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) },
		"Yield":      spindle.Yield,
		"Checkpoint": spindle.Checkpoint,
		"Blocking": func(ctx context.Context) error {
			_, err := spindle.Blocking(ctx, func() (int, error) { return 0, nil })
			return err
		},
		"Future": func(ctx context.Context) error {
			_, err := spindle.NewFuture[int](ctx).Await(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			waits, deferred := 0, false
			var others int
			err := sim.Run(t.Context(), func(ctx context.Context) error {
				spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Name: "heedless"}, func(ctx context.Context) error {
					defer func() { deferred = true }()
					for {
						wait(ctx)
						if ctx.Err() != nil {
							waits++
						}
						if waits > 100_000 {
							return errors.New("it spins")
						}
					}
				})
				spindle.RootNursery(ctx).Go(func(ctx context.Context) error { // ends when cancelled, after a while
					err := forever(ctx)
					return errors.Join(err, spindle.Grace(ctx, time.Second, func(ctx context.Context) error {
						for range 1000 {
							others++
							if err := spindle.Yield(ctx); err != nil {
								return err
							}
						}
						return nil
					}))
				})
				return spindle.Yield(ctx)
			})
			if !slices.Contains(stragglers(err), "heedless") || !deferred {
				t.Errorf("%v, deferred %v", err, deferred)
			}
			// 16 at once, then one each 10 ms.
			if most := 16 + 500 + 10; waits > most || waits < 100 || others != 1000 {
				t.Errorf("%d waits, at most %d expected; the other got %d turns", waits, most, others)
			}
		})
	}
}

// TestGraceHoldsWhenACallbackPanics: shielded tasks may run for Grace and no longer, and
// their errors are not lost.
func TestGraceHoldsWhenACallbackPanics(t *testing.T) {
	for name, before := range map[string]func(context.Context){
		"while all is well":             func(context.Context) {},
		"after everything is cancelled": func(ctx context.Context) { spindle.RootNursery(ctx).Scope().Cancel(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			var ended time.Duration
			err := sim.Run(t.Context(), func(ctx context.Context) error {
				spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Name: "shielded"}, func(ctx context.Context) error {
					defer func() { ended = spindle.LoopOf(ctx).Time() }()
					return spindle.Shield(ctx, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
				})
				spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
					forever(ctx)
					return errCause
				})
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
				before(ctx)
				spindle.LoopOf(ctx).CallSoon(func() { panic("boom") })
				return forever(ctx)
			})
			if ended != 5*time.Second {
				t.Errorf("the shielded task ended after %v", ended)
			}
			if !errors.Is(err, errCause) || !slices.Equal(stragglers(err), []string{"shielded"}) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestNurseriesThatIgnoreCancellationAreEnded: code that opens one nursery after the other
// and ignores cancellation does not spin, and is made to exit.
func TestNurseriesThatIgnoreCancellationAreEnded(t *testing.T) {
	rounds := 0
	err := sim.Run(t.Context(), func(ctx context.Context) error {
		spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Name: "heedless"}, func(ctx context.Context) error {
			for {
				spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error { n.Go(forever); return nil })
				if rounds++; rounds > 10_000 {
					return errors.New("it spins")
				}
			}
		})
		return spindle.Yield(ctx)
	})
	if !errors.Is(err, spindle.ErrStragglers) {
		t.Errorf("%v after %d rounds", err, rounds)
	}
}

// TestStragglersOfAFailedRunAreEnded, whether a failure or the user cancelled the run.
func TestStragglersOfAFailedRunAreEnded(t *testing.T) {
	failure := errors.New("failure")
	for name, end := range map[string]func(ctx context.Context) error{
		"a failure": func(ctx context.Context) error { return failure },
		"the user": func(ctx context.Context) error {
			spindle.RootNursery(ctx).Scope().Cancel(failure)
			return nil
		},
	} {
		err := sim.Run(t.Context(), func(ctx context.Context) error {
			spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Name: "heedless"}, func(ctx context.Context) error {
				for {
					spindle.Yield(ctx)
				}
			})
			spindle.RootNursery(ctx).Go(end)
			for {
				spindle.Yield(ctx) // nor does main
			}
		})
		if len(stragglers(err)) != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestShieldedStragglerIsEnded(t *testing.T) {
	for name, wait := range map[string]func(context.Context) error{
		"waits for ever": forever,
		"parks for an hour": func(ctx context.Context) error {
			w, err := spindle.NewWaker(ctx)
			if err != nil {
				return err
			}
			timer := spindle.LoopOf(ctx).CallLater(time.Hour, func() { w.Wake(nil) })
			return w.Park(ctx, "an hour", spindle.AbortFunc(timer.Cancel))
		},
	} {
		t.Run(name, func(t *testing.T) {
			deferred := false
			err := sim.Run(t.Context(), func(ctx context.Context) error {
				spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Name: "shielded"}, func(ctx context.Context) error {
					defer func() { deferred = true }()
					return spindle.Shield(ctx, func(ctx context.Context) error {
						for i := 0; ; i++ {
							wait(ctx)
							if i > 1000 {
								t.Error("it was not ended")
								return nil
							}
						}
					})
				})
				return spindle.Yield(ctx)
			})
			if !slices.Contains(stragglers(err), "shielded") || !deferred {
				t.Fatalf("%v, deferred %v", err, deferred)
			}
		})
	}
}

func TestStragglersAreEndedAndNamed(t *testing.T) {
	deferred := false
	err := sim.Run(t.Context(), func(ctx context.Context) error {
		spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Name: "stubborn"}, func(ctx context.Context) error {
			defer func() { deferred = true }()
			for {
				spindle.Sleep(ctx, time.Second) // ignores cancellation
			}
		})
		spindle.RootNursery(ctx).Go(forever) // ends when cancelled
		return spindle.Yield(ctx)
	})
	if len(stragglers(err)) != 1 || stragglers(err)[0] != "stubborn" || !deferred {
		t.Fatalf("%v, deferred %v", err, deferred)
	}
}

// TestStragglerInTheScopeOfAnotherRun: a run ends its tasks wherever they wait.
func TestStragglerInTheScopeOfAnotherRun(t *testing.T) {
	sim.Test(t, func(other context.Context) error {
		l := spindle.LoopOf(other)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		spindle.RunOn(ctx, l, func(ctx context.Context) error {
			return spindle.Shield(other, forever)
		}, func(err error) { ended <- err })
		if err := spindle.Sleep(other, time.Second); err != nil {
			return err
		}
		cancel()
		if err := spindle.Sleep(other, time.Minute); err != nil {
			return err
		}
		select {
		case err := <-ended:
			if !errors.Is(err, spindle.ErrStragglers) {
				t.Errorf("got %v", err)
			}
		default:
			t.Error("the run has not ended")
		}
		return nil
	})
}
