package inspect_test

import (
	"context"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/until"
)

// spin keeps the loop busy for d.
func spin(ctx context.Context, d time.Duration) {
	l := spindle.LoopOf(ctx)
	for began := l.Time(); l.Time()-began < d; {
	}
}

// checkTime checks that the parts of a task's time are not negative and not more than the
// whole.
func checkTime(t *testing.T, name string, time *inspectapi.TaskTime) {
	t.Helper()
	if time == nil {
		t.Errorf("%s has no time", name)
		return
	}
	if time.AgeNS < 0 || time.BusyNS < 0 || time.ReadyNS < 0 || time.WaitingNS < 0 || time.BusyNS+time.ReadyNS+time.WaitingNS > time.AgeNS {
		t.Errorf("%s has the time %+v", name, *time)
	}
}

// attachedTo waits until the tasks of a loop are accounted.
func attachedTo(t *testing.T, name string) {
	t.Helper()
	until.Tried(func() bool { return loopNamed(t, name).Phases != nil })
}

// TestEndedTasksHaveTheirTimes has tasks that begin and end within one turn. Their times
// are those of the clock, not of the turn.
func TestEndedTasksHaveTheirTimes(t *testing.T) {
	const short, long = 2 * time.Millisecond, 20 * time.Millisecond
	run(t, "ended", func(ctx context.Context, outside func(func())) error {
		outside(func() { attachedTo(t, "ended") })
		err := spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "long"}, func(ctx context.Context) error { spin(ctx, long); return nil })
			for range 20 {
				n.GoWith(spindle.TaskOptions{Name: "short"}, func(ctx context.Context) error { spin(ctx, short); return spindle.Yield(ctx) })
			}
			return nil
		})
		at := inspect.Snapshot(ctx)
		if len(at.Ended) != 21 {
			t.Errorf("%d tasks have ended, want 21", len(at.Ended))
		}
		for _, task := range at.Ended {
			checkTime(t, task.Name, task.Time)
			if want := map[string]time.Duration{"short": short, "long": long}[task.Name]; task.Time.BusyNS < int64(want) {
				t.Errorf("%s was busy for %v, want at least %v", task.Name, time.Duration(task.Time.BusyNS), want)
			}
		}
		return err
	})
}

// TestTasksHaveTimesWithinATurn looks at tasks in the turn in which their state has changed.
func TestTasksHaveTimesWithinATurn(t *testing.T) {
	const long = 5 * time.Millisecond
	run(t, "turn", func(ctx context.Context, outside func(func())) error {
		outside(func() { attachedTo(t, "turn") })
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "waits"}, func(ctx context.Context) error {
				spin(ctx, long)
				return spindle.Sleep(ctx, time.Hour)
			})
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			spin(ctx, long)
			at := inspect.Snapshot(ctx)
			for _, name := range []string{"main", "waits"} {
				checkTime(t, name, taskNamed(t, at.Tasks, name).Time)
			}
			if busy := time.Duration(taskNamed(t, at.Tasks, "main").Time.BusyNS); busy < long {
				t.Errorf("main was busy for %v, want at least %v", busy, long)
			}
			if waited := time.Duration(taskNamed(t, at.Tasks, "waits").Time.WaitingNS); waited < long {
				t.Errorf("the child has waited for %v, want at least %v", waited, long)
			}
			if child := taskNamed(t, at.Tasks, "waits"); child.WaitsNS+child.Time.BusyNS > child.Time.AgeNS {
				t.Errorf("the child waits for %v, with the time %+v", time.Duration(child.WaitsNS), *child.Time)
			}
			n.Scope().Cancel(nil)
			return nil
		})
	})
}
