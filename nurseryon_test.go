package spindle_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

// TestNurseryOnEndsItsTasks: the end cancels who still waits, and is told when the
// last has ended.
func TestNurseryOnEndsItsTasks(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, end := spindle.NurseryOn(t.Context(), l)
	var cut error
	n.Go(func(ctx context.Context) error {
		cut = spindle.Sleep(ctx, time.Hour)
		return cut
	})
	l.CallLater(time.Millisecond, func() {
		end(func(err error) {
			if err != nil {
				t.Error(err)
			}
			l.Stop()
		})
	})
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(cut, context.Canceled) || !n.Ended() {
		t.Errorf("the task got %v; ended: %v", cut, n.Ended())
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestNurseryOnWithoutTasksEnds: also if none was ever started.
func TestNurseryOnWithoutTasksEnds(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, end := spindle.NurseryOn(t.Context(), l)
	end(func(error) { l.Stop() })
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestNurseryOnReturnsPanics: there is nobody in whom to panic but the loop.
func TestNurseryOnReturnsPanics(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n, end := spindle.NurseryOn(t.Context(), l)
	n.Go(func(context.Context) error {
		l.CallSoon(func() {
			end(func(err error) {
				if p := (*spindle.PanicError)(nil); !errors.As(err, &p) || p.Value != "oh dear" {
					t.Errorf("got %v", err)
				}
				l.Stop()
			})
		})
		panic("oh dear")
	})
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestCoroutinesEndWithTheLoop: TestMain sees that none is left, although nobody
// has ended the nursery.
func TestCoroutinesEndWithTheLoop(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, _ := spindle.NurseryOn(t.Context(), l)
	for range 3 {
		n.Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Millisecond) })
	}
	n.Go(func(ctx context.Context) error {
		err := spindle.Sleep(ctx, 5*time.Millisecond)
		l.Stop()
		return err
	})
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
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
			n.Go(func(context.Context) error { panic("oh dear") })
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
	if len(failed) != 3 || failed[0] != wrong || !errors.As(failed[1], &panicked) || panicked.Value != "oh dear" ||
		!errors.As(failed[2], &exited) || exited.Value != loop.ErrGoexit {
		t.Errorf("told of %v", failed)
	}
}

// TestOnFailureHearsNothingOfCancellations, by the nursery itself and from around it.
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
