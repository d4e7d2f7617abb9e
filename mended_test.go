package spindle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// TestHeedlessNurseriesAreEnded: code that opens one nursery after the other and
// heeds no cancellation does not spin, and is ended.
func TestHeedlessNurseriesAreEnded(t *testing.T) {
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
	var late *spindle.StragglerError
	if !errors.As(err, &late) {
		t.Errorf("%v after %d rounds", err, rounds)
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

// TestStartOfAChildThatPanics: the starter does not wait for ever, though the
// panic is another's.
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

// TestFailNowUnderRunEndsTheTest: that test, and no other.
func TestFailNowUnderRunEndsTheTest(t *testing.T) {
	if os.Getenv("CHILD") != "" {
		t.Run("a", func(t *testing.T) {
			spindle.Run(t.Context(), func(ctx context.Context) error { t.Fatal("fatal"); return nil })
		})
		t.Run("b", func(t *testing.T) { fmt.Println("the next test ran") })
		return
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^TestFailNowUnderRunEndsTheTest$")
	cmd.Env = append(os.Environ(), "CHILD=1")
	if out, _ := cmd.CombinedOutput(); !bytes.Contains(out, []byte("the next test ran")) {
		t.Errorf("%s", out)
	}
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

// TestBoundWaitsEndInOrder: in which they began, in every run.
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

func TestForeignSpawnAndTreeAreNamed(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context){
		"Spawn":  func(ctx context.Context) { spindle.Spawn(spindle.RootNursery(ctx), after(1, 1, nil)) },
		"TreeOf": func(ctx context.Context) { spindle.TreeOf(ctx) },
	} {
		spindle.Run(t.Context(), func(ctx context.Context) error {
			caught := make(chan any, 1)
			go func() {
				defer func() { caught <- recover() }()
				call(ctx)
			}()
			for len(caught) == 0 {
				spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error { n.Go(spindle.Yield); return spindle.Yield(ctx) })
			}
			if text, _ := (<-caught).(string); !strings.HasPrefix(text, "spindle: ") {
				t.Errorf("%s: %q", name, text)
			}
			return nil
		})
	}
}

func TestNoFailureIsLostBesideAPanic(t *testing.T) {
	p := panicOf(func() error {
		return nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(context.Context) error { panic("one") })
			n.Go(func(context.Context) error { panic("two") })
			n.Go(func(context.Context) error { return errOther })
			return nil
		})
	})
	if text := p.Error(); !strings.Contains(text, "two") || !strings.Contains(text, errOther.Error()) {
		t.Errorf("only %q", text)
	}
}

func TestTasksAreNamedAfterTheirFunctions(t *testing.T) {
	nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		var f *spindle.Future[int]
		f = spindle.Spawn(n, func(ctx context.Context) (int, error) { return f.Await(ctx) })
		if _, err := f.Await(ctx); !strings.Contains(err.Error(), "TestTasksAreNamed") {
			t.Error(err)
		}
		return nil
	})
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

// TestRunThatHasEndedTakesNoMoreTasks: not even in the turn in which it ends, when
// nobody would wait for them.
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

// TestContextThatEndsWithTheRun is nothing that was lost. Whether its end comes
// before the run's or after it is up to the scheduler: both happen.
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

// TestANurseryWaitsForALateChild: until the opener's turn comes, a callback may start
// one more, and the opener is woken once.
func TestANurseryWaitsForALateChild(t *testing.T) {
	for _, eager := range []bool{false, true} {
		sim.Test(t, func(ctx context.Context) error {
			ended := false
			err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(func(context.Context) error {
					spindle.LoopOf(ctx).CallSoon(func() {
						n.GoWith(spindle.TaskOptions{Eager: eager}, func(ctx context.Context) error {
							if !eager {
								spindle.Yield(ctx)
							}
							ended = true
							return nil
						})
					})
					return nil
				})
				return nil
			})
			if err != nil || !ended {
				t.Errorf("eager %v: the nursery ended with %v, its child had ended: %v", eager, err, ended)
			}
			before := spindle.Now(ctx)
			if err := spindle.Sleep(ctx, time.Second); err != nil {
				return err
			}
			if slept := spindle.Now(ctx).Sub(before); slept < time.Second {
				t.Errorf("eager %v: the next wait took %v", eager, slept)
			}
			return nil
		})
	}
}

// TestStragglersOfAFailedRunAreEnded: also when it was a failure that cancelled
// everything, or the user.
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
		var stragglers *spindle.StragglerError
		if !errors.As(err, &stragglers) || len(stragglers.Tasks) != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
