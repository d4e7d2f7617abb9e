package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

func TestNurseryWaitsForItsTasks(t *testing.T) {
	ended := 0
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		for i := range 10 {
			n.Go(func(ctx context.Context) error {
				err := spindle.Sleep(ctx, time.Duration(i)*time.Hour)
				ended++
				return err
			})
		}
		return nil
	})
	if err != nil || ended != 10 {
		t.Fatalf("%d ended, %v", ended, err)
	}
}

func TestErrorsAreJoined(t *testing.T) {
	first, second, body := errors.New("first"), errors.New("second"), errors.New("body")
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(ctx context.Context) error { spindle.Sleep(ctx, time.Second); return first })
		n.Go(func(ctx context.Context) error { forever(ctx); return second })
		forever(ctx)
		return body
	})
	var all *spindle.Errors
	if !errors.As(err, &all) || len(all.Errs) != 3 || !errors.Is(err, first) || !errors.Is(err, second) || !errors.Is(err, body) {
		t.Fatalf("error %v", err)
	}
	if !strings.Contains(err.Error(), "- second") {
		t.Errorf("text %q", err)
	}
}

func TestDeepNesting(t *testing.T) {
	var nest func(ctx context.Context, depth int) error
	nest = func(ctx context.Context, depth int) error {
		if depth == 0 {
			return spindle.Sleep(ctx, time.Second)
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { return nest(ctx, depth-1) })
			return nil
		})
	}
	sim.Test(t, func(ctx context.Context) error { return nest(ctx, 1000) })
}

func TestHundredThousandSleepersWakeInOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: many tasks")
	}
	const many = 100_000
	last, woken := -1, 0
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		for i := range many {
			n.Go(func(ctx context.Context) error {
				at := (i * 7919) % many
				err := spindle.Sleep(ctx, time.Duration(at+1)*time.Microsecond)
				if at != last+1 {
					return fmt.Errorf("%d woke after %d", at, last)
				}
				last = at
				woken++
				return err
			})
		}
		return nil
	})
	if err != nil || woken != many {
		t.Fatalf("%d woke, %v", woken, err)
	}
}

type valueKey struct{}

// TestTaskWithAScopeOfItsOwn can be cancelled alone, and has values of its own.
func TestTaskWithAScopeOfItsOwn(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var scope *spindle.Scope
			o := spindle.TaskOptions{Eager: true, Values: context.WithValue(context.Background(), valueKey{}, 7)}
			n.GoWith(o, func(ctx context.Context) error {
				scope = ctx.(*spindle.Scope)
				if ctx.Value(valueKey{}) != 7 {
					t.Error("its value is missing")
				}
				return spindle.Sleep(ctx, time.Hour)
			})
			n.Go(func(ctx context.Context) error {
				scope.Cancel(errors.New("alone"))
				return spindle.Sleep(ctx, time.Millisecond)
			})
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// TestOnFailureLetsTheOthersGoOn after an error, a panic and a Goexit.
func TestOnFailureLetsTheOthersGoOn(t *testing.T) {
	var failed []error
	wrong := errors.New("wrong")
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.OnFailure(func(err error) { failed = append(failed, err) })
			n.Go(func(context.Context) error { return wrong })
			n.Go(func(context.Context) error { panic("oh no") })
			n.Go(func(context.Context) error { runtime.Goexit(); return nil })
			n.Go(func(ctx context.Context) error {
				if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
					t.Errorf("another task was cut short: %v", err)
				}
				return nil
			})
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
	var panicked, exited *spindle.PanicError
	if len(failed) != 3 || failed[0] != wrong || !errors.As(failed[1], &panicked) || panicked.Value != "oh no" ||
		!errors.As(failed[2], &exited) || exited.Value != loop.ErrGoexit {
		t.Errorf("told of %v", failed)
	}
}

// TestOnFailureThatPanics: a handler that panics, or calls runtime.Goexit, fails the nursery,
// whatever the task did.
func TestOnFailureThatPanics(t *testing.T) {
	for name, task := range map[string]func(context.Context) error{
		"fails":  func(context.Context) error { return errors.New("wrong") },
		"panics": func(context.Context) error { panic("task") },
		"exits":  func(context.Context) error { runtime.Goexit(); return nil },
	} {
		for handled, handler := range map[any]func(error){
			"handler":      func(error) { panic("handler") },
			loop.ErrGoexit: func(error) { runtime.Goexit() },
		} {
			t.Run(fmt.Sprint(name, ", ", handled), func(t *testing.T) {
				sim.Test(t, func(ctx context.Context) error {
					p := panicOf(func() error {
						return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
							n.OnFailure(handler)
							n.Go(task)
							return nil
						})
					})
					if p == nil || p.Value != handled {
						t.Errorf("got %v", p)
					}
					return nil
				})
			})
		}
	}
}

// TestOnFailureHearsNothingOfCancellations of the nursery or of a scope around it.
func TestOnFailureHearsNothingOfCancellations(t *testing.T) {
	outer := errors.New("outer")
	for name, scope := range map[string]func(nursery, around *spindle.Scope) *spindle.Scope{
		"its own":     func(nursery, _ *spindle.Scope) *spindle.Scope { return nursery },
		"from around": func(_, around *spindle.Scope) *spindle.Scope { return around },
	} {
		t.Run(name, func(t *testing.T) {
			sim.Test(t, func(ctx context.Context) error {
				return spindle.WithScope(ctx, func(ctx context.Context, around *spindle.Scope) error {
					return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
						n.OnFailure(func(err error) { t.Errorf("told of %v", err) })
						n.Go(forever)
						if err := spindle.Sleep(ctx, time.Second); err != nil {
							return err
						}
						scope(n.Scope(), around).Cancel(outer)
						return nil
					})
				})
			})
		})
	}
}

// TestANurseryWaitsForALateChild: before the task that opened it continues, a
// callback may start one more task. The opener is woken once.
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

func TestUnknownPriorityIsNamed(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		defer func() {
			if text, _ := recover().(string); !strings.Contains(text, "unknown priority") {
				t.Errorf("panic %q", text)
			}
		}()
		spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Priority: 9}, forever)
		return nil
	})
}
