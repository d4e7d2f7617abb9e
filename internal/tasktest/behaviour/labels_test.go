package behaviour_test

import (
	"bytes"
	"context"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
)

// labelled reports whether a goroutine has a label, in the goroutine profile.
func labelled(t *testing.T, label string) bool {
	t.Helper()
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	return strings.Contains(profile.String(), label)
}

// next runs a task in a nursery of its own, on the coroutine of the one before.
func next(ctx context.Context, eager bool, task func(context.Context) error) error {
	return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
		n.GoWith(spindle.TaskOptions{Eager: eager}, task)
		return nil
	})
}

// TestLabelsEndWithTheirTask: the next task on the same coroutine has those of the run's
// context.
func TestLabelsEndWithTheirTask(t *testing.T) {
	for _, labels := range []bool{false, true} {
		base := t.Context()
		if labels {
			base = pprof.WithLabels(base, pprof.Labels("run", "labelled-run"))
		}
		set := func(ctx context.Context) error {
			pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels("task", "left-by-a-task")))
			return nil
		}
		look := func(ctx context.Context) error {
			if labelled(t, "left-by-a-task") {
				t.Error("a task has the labels of another")
			}
			if labelled(t, "labelled-run") != labels {
				t.Errorf("a task has labels of its run: %v, want %v", !labels, labels)
			}
			return nil
		}
		err := spindle.Run(base, func(ctx context.Context) error {
			for _, eager := range []bool{false, true} {
				for _, task := range []func(context.Context) error{set, look, set, set, look} {
					if err := next(ctx, eager, task); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestLabelsAreNotThoseOfTheCreator: a goroutine inherits the labels of its creator, and a
// coroutine may be made by a task that starts another eagerly.
func TestLabelsAreNotThoseOfTheCreator(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		pprof.Do(ctx, pprof.Labels("task", "creator"), func(context.Context) {
			spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Eager: true}, forever)
		})
		if labelled(t, "creator") {
			t.Error("a task that was started eagerly keeps the labels of its starter")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPanicOnFaultEndsWithItsTask, although it is a setting of the goroutine.
func TestPanicOnFaultEndsWithItsTask(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		for range 3 {
			err := next(ctx, false, func(context.Context) error {
				if debug.SetPanicOnFault(true) {
					t.Error("a task begins with what another has set")
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLabelsOfTwoRunsOnALoop: a coroutine that has run a task of one run begins a task of
// another one with the labels of the latter.
func TestLabelsOfTwoRunsOnALoop(t *testing.T) {
	l := newLoop(t)
	run := func(label string, want bool) {
		ctx := t.Context()
		if label != "" {
			ctx = pprof.WithLabels(ctx, pprof.Labels("run", label))
		}
		spindle.RunOn(ctx, l, func(context.Context) error {
			if labelled(t, "first-run") != want {
				t.Errorf("a task of the run %q has the labels of the first run: %v", label, !want)
			}
			return nil
		}, nil)
	}
	run("first-run", true)
	run("", false)
	run("second-run", false)
	run("first-run", true)
	for range 20 {
		if _, err := l.RunOnce(0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTracedTasksAreSeen by name in profiles and execution traces, and the tree shows where
// they were started.
func TestTracedTasksAreSeen(t *testing.T) {
	var recorded, profile bytes.Buffer
	if err := trace.Start(&recorded); err != nil {
		t.Fatal(err)
	}
	o := spindle.Options{Trace: true}
	err := o.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			_, _, line, _ := runtime.Caller(0)
			n.GoWith(spindle.TaskOptions{Name: "weaver"}, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			pprof.Lookup("goroutine").WriteTo(&profile, 1)
			for _, info := range spindle.TreeOf(ctx) {
				if want := "labels_test.go:" + strconv.Itoa(line+1); info.Name == "weaver" && info.Started != want {
					t.Errorf("started at %q; want %q", info.Started, want)
				}
				if !strings.HasPrefix(info.Function, "labels_test.go:") && info.Name == "weaver" {
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

// TestLabelsEndWithTheTask when its coroutine is reused.
func TestLabelsEndWithTheTask(t *testing.T) {
	o := spindle.Options{Trace: true}
	var profile bytes.Buffer
	err := o.Run(t.Context(), func(ctx context.Context) error {
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
