package behaviour_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// TestNurseryOnEndsItsTasks: end cancels the tasks that wait, and done is called when the
// last one has ended.
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

// TestNurseryOnWithoutTasksEnds, even if no task was ever started.
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

// TestNurseryOnReturnsPanics as errors: otherwise only the loop could panic.
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
				if p := (*spindle.PanicError)(nil); !errors.As(err, &p) || p.Value != "oh no" {
					t.Errorf("got %v", err)
				}
				l.Stop()
			})
		})
		panic("oh no")
	})
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestCoroutinesEndWithTheLoop: TestMain finds none, although end was not called.
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

// TestRunOnStartsTasksFromCallbacks on a loop that other code runs.
func TestRunOnStartsTasksFromCallbacks(t *testing.T) {
	l := newLoop(t)
	boom := errors.New("boom")
	var slept bool
	var ended []error
	l.CallSoon(func() {
		spindle.RunOn(t.Context(), l, func(ctx context.Context) error {
			err := spindle.Sleep(ctx, time.Millisecond)
			slept = true
			return err
		}, func(err error) {
			ended = append(ended, err)
			spindle.RunOn(t.Context(), l, func(ctx context.Context) error { return boom }, func(err error) {
				ended = append(ended, err)
				l.Stop()
			})
		})
	})
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slept || !slices.Equal(ended, []error{nil, boom}) {
		t.Errorf("slept %v, ended with %v", slept, ended)
	}
}

func TestRunOnIsCancelledWithItsContext(t *testing.T) {
	l := newLoop(t)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	var ended error
	spindle.RunOn(ctx, l, func(ctx context.Context) error {
		cancel(why)
		return spindle.Sleep(ctx, time.Hour)
	}, func(err error) {
		ended = err
		l.Stop()
	})
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ended != why {
		t.Errorf("ended with %v", ended)
	}
}

// TestRunsShareALoop: tasks of two runs take turns on one loop, in the loop's
// order, and neither run sees the tasks of the other.
func TestRunsShareALoop(t *testing.T) {
	l := newLoop(t)
	var order []string
	left := 2
	for _, name := range []string{"a", "b"} {
		spindle.RunOn(t.Context(), l, func(ctx context.Context) error {
			for range 3 {
				order = append(order, name)
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			if tree := spindle.TreeOf(ctx); len(tree) != 1 {
				t.Errorf("%s sees\n%v", name, tree)
			}
			return nil
		}, func(err error) {
			if err != nil {
				t.Error(err)
			}
			if left--; left == 0 {
				l.Stop()
			}
		})
	}
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "ababab" {
		t.Errorf("the order was %s", got)
	}
}

// TestRunsKeepTheirCoroutines: a coroutine at the end of its task does not begin a task of
// another run, even if that is next.
func TestRunsKeepTheirCoroutines(t *testing.T) {
	l := newLoop(t)
	left := 2
	for range left {
		spindle.RunOn(t.Context(), l, func(ctx context.Context) error {
			if spindle.Current(ctx) == nil {
				t.Error("the task does not know itself")
			}
			return nil
		}, func(error) {
			if left--; left == 0 {
				l.Stop()
			}
		})
	}
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRunOnFromAnotherGoroutineIsNamed(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		caught := make(chan any)
		go func() {
			defer func() { caught <- recover() }()
			spindle.RunOn(context.Background(), l, forever, nil)
		}()
		if text, _ := (<-caught).(string); !strings.Contains(text, "RunOn called from a goroutine") {
			t.Errorf("panic %q", text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNurseryOnEndsWithTheLoop(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, _ := spindle.NurseryOn(t.Context(), l)
	if err := l.Close(); err != nil || !n.Ended() {
		t.Errorf("ended: %v; Close: %v", n.Ended(), err)
	}
}
