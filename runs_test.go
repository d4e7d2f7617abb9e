package spindle_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

// TestEagerTaskBeginsAtOnce: up to its first wait, inside Go, with nothing else
// in between.
func TestEagerTaskBeginsAtOnce(t *testing.T) {
	eager := spindle.TaskOptions{Name: "eager", Eager: true}
	sim.Test(t, func(ctx context.Context) error {
		var order []string
		note := func(what string) { order = append(order, what) }
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(context.Context) error { note("other"); return nil })
			note("before")
			n.GoWith(eager, func(ctx context.Context) error {
				note("begins")
				if spindle.Current(ctx).Name() != "eager" {
					t.Errorf("it runs as %q", spindle.Current(ctx).Name())
				}
				err := spindle.Yield(ctx)
				note("goes on")
				return err
			})
			note("between")
			n.GoWith(eager, func(context.Context) error { note("ends"); return nil })
			note("after")
			if spindle.Current(ctx).Name() != "main" {
				t.Errorf("then %q runs", spindle.Current(ctx).Name())
			}
			return nil
		})
		want := []string{"before", "begins", "between", "ends", "after", "other", "goes on"}
		if !slices.Equal(order, want) {
			t.Errorf("the order was %q; want %q", order, want)
		}
		return err
	})
}

func TestEagerTaskFromACallback(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		begun := false
		spindle.LoopOf(ctx).CallSoon(func() {
			spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Eager: true}, func(ctx context.Context) error {
				begun = true
				return spindle.Sleep(ctx, time.Second)
			})
			if !begun {
				t.Error("not begun when Go returned")
			}
		})
		return spindle.Sleep(ctx, time.Minute)
	})
}

func TestEagerTaskThatFailsFailsItsNursery(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		boom := errors.New("boom")
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Eager: true}, func(context.Context) error { return boom })
			if ctx.Err() == nil {
				t.Error("the nursery is not cancelled")
			}
			return nil
		})
		if err != boom {
			t.Errorf("the nursery ended with %v", err)
		}
		return nil
	})
}

// TestEagerTasksInEachOther: deeper than tasks hand over to each other.
func TestEagerTasksInEachOther(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			deepest := 0
			var start func(depth int)
			start = func(depth int) {
				n.GoWith(spindle.TaskOptions{Eager: true}, func(ctx context.Context) error {
					deepest = depth
					if depth < 20 {
						start(depth + 1)
					}
					return spindle.Yield(ctx)
				})
			}
			start(1)
			if deepest != 20 {
				t.Errorf("%d begun", deepest)
			}
			return nil
		})
	})
}

// TestRunnerRunsSeveralTimes: with one loop, which keeps what was asked of it in
// between.
func TestRunnerRunsSeveralTimes(t *testing.T) {
	r, err := spindle.NewRunner(spindle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var loops []*loop.Loop
	for range 2 {
		called := false
		r.Loop().CallSoon(func() { called = true })
		if err := r.Run(t.Context(), func(ctx context.Context) error {
			loops = append(loops, spindle.LoopOf(ctx))
			return spindle.Yield(ctx)
		}); err != nil {
			t.Fatal(err)
		}
		if !called {
			t.Error("a callback from before the run was not called")
		}
	}
	if loops[0] != r.Loop() || loops[1] != r.Loop() {
		t.Error("the runs were on other loops")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); !errors.Is(err, loop.ErrClosed) {
		t.Errorf("the second Close: %v", err)
	}
}

// TestRunOnStartsTasksFromCallbacks: on a loop that somebody else runs.
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
// order, and neither sees the other's.
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

// TestRunsKeepTheirCoroutines: one whose task has ended begins no task of another
// run, though that is next.
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

func newLoop(t *testing.T) *loop.Loop {
	t.Helper()
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestTracedTasksAreSeen: by their names, in profiles and execution traces; and
// the tree knows where they were started.
func TestTracedTasksAreSeen(t *testing.T) {
	var recorded, profile bytes.Buffer
	if err := trace.Start(&recorded); err != nil {
		t.Fatal(err)
	}
	o := spindle.Options{Trace: true}
	err := spindle.RunWith(t.Context(), o, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			_, _, line, _ := runtime.Caller(0)
			n.GoWith(spindle.TaskOptions{Name: "weaver"}, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			pprof.Lookup("goroutine").WriteTo(&profile, 1)
			for _, info := range spindle.TreeOf(ctx) {
				if want := "runs_test.go:" + strconv.Itoa(line+1); info.Name == "weaver" && info.Started != want {
					t.Errorf("started at %q; want %q", info.Started, want)
				}
				if !strings.HasPrefix(info.Function, "runs_test.go:") && info.Name == "weaver" {
					t.Errorf("its function is at %q", info.Function)
				}
			}
			return context.Canceled
		})
	})
	trace.Stop()
	if err != context.Canceled {
		t.Fatal(err)
	}
	if !strings.Contains(profile.String(), `"task":"weaver"`) {
		t.Error("the profile does not know the task")
	}
	if !bytes.Contains(recorded.Bytes(), []byte("weaver")) {
		t.Error("the trace does not know the task")
	}
}

// TestLabelsEndWithTheTask: a coroutine is used again.
func TestLabelsEndWithTheTask(t *testing.T) {
	o := spindle.Options{Trace: true}
	var profile bytes.Buffer
	err := spindle.RunWith(t.Context(), o, func(ctx context.Context) error {
		spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Name: "weaver"}, func(context.Context) error { return nil })
		err := spindle.Yield(ctx)
		pprof.Lookup("goroutine").WriteTo(&profile, 1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(profile.String(), `"task":"weaver"`) {
		t.Error("the label is still there")
	}
}
