package inspect_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/inspectapi"
)

// A snapshot of many tasks is complete, and taken in slices between which the loop runs.
func TestSnapshotOfManyTasksIsTakenInSlices(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: many tasks")
	}
	const tasks = inspect.ManyTasks
	run(t, "crowded", func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for range tasks {
				n.Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
			}
			// Tasks that move from scope to scope must be in the snapshot as well.
			stop := false
			for range 100 {
				n.GoWith(spindle.TaskOptions{Name: "mover"}, func(ctx context.Context) error {
					for !stop {
						_, err := spindle.MoveOnAfter(ctx, time.Hour, func(ctx context.Context) error { return spindle.Yield(ctx) })
						if err != nil {
							return err
						}
					}
					return nil
				})
			}
			outside(func() {
				var a inspectapi.TasksAnswer
				for a.Total == 0 { // the loop may be too busy with starting them to answer in time
					a = tasksOf(t, "crowded", "q=mover")
				}
				if a.Total != tasks+101 || a.Matched != 100 {
					t.Errorf("%d tasks, %d of them move", a.Total, a.Matched)
				}
				l := a.Loops[0]
				t.Logf("%d slices, %v in all, the longest %v; the answer took %v",
					l.Slices, time.Duration(l.SlicesNS), time.Duration(l.LongNS), time.Duration(a.TookNS))
				if l.Slices < 4 {
					t.Errorf("the snapshot was taken in %d slices", l.Slices)
				}
			})
			stop = true
			n.Scope().Cancel(nil)
			return nil
		})
	})
}

func TestEndedTasksShowTheirOutcome(t *testing.T) {
	inspect.ShortPauses(t)
	run(t, "ended", func(ctx context.Context, outside func(func())) error {
		// Accounting begins a little after the first request, and with it the record.
		id := ""
		var ended inspectapi.EndedAnswer
		for ended.Total == 0 {
			outside(func() {
				id = loopNamed(t, "ended").ID
				ended = get[inspectapi.EndedAnswer](t, inspect.Options{}, "/api/v1/ended?loop="+id)
			})
			err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.OnFailure(func(error) {})
				n.GoWith(spindle.TaskOptions{Name: "fails"}, func(context.Context) error { return errors.New("out of luck") })
				n.GoWith(spindle.TaskOptions{Name: "succeeds"}, func(ctx context.Context) error { return spindle.Yield(ctx) })
				return nil
			})
			if err != nil {
				return err
			}
		}
		for i := 0; i < 2; { // a snapshot with both
			i = 0
			outside(func() {
				ended = get[inspectapi.EndedAnswer](t, inspect.Options{}, "/api/v1/ended?loop="+id)
			})
			for _, e := range ended.Tasks {
				switch e.Name {
				case "fails":
					i |= 1
					if e.Outcome != "error" || e.Error != "out of luck" || e.Function == "" {
						t.Errorf("a failed task: %+v", e)
					}
				case "succeeds":
					i |= 2
					if e.Outcome != "ok" {
						t.Errorf("a task that succeeded: %+v", e)
					}
				}
			}
		}
		if len(ended.Tasks) > 256 {
			t.Errorf("%d ended tasks are remembered", len(ended.Tasks))
		}
		return nil
	})
}

func TestAccountingShowsBusyAndWaitingTime(t *testing.T) {
	inspect.ShortPauses(t)
	run(t, "accounts", func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "waits"}, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
			n.GoWith(spindle.TaskOptions{Name: "works"}, func(ctx context.Context) error {
				for {
					for began := spindle.Now(ctx); time.Since(began) < time.Millisecond; {
					}
					if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
						return err
					}
				}
			})
			outside(func() {
				for {
					tasks := tasksOf(t, "accounts", "sort=-busy").Tasks
					if !hasTask(tasks, "works") {
						continue // the loop has not answered in time
					}
					works := taskNamed(t, tasks, "works")
					if works.Time == nil || works.Time.Switches < 5 {
						continue
					}
					sum := works.Time.BusyNS + works.Time.ReadyNS + works.Time.WaitingNS
					if works.Time.BusyNS <= 0 || works.Time.WaitingNS <= 0 || sum > works.Time.AgeNS+int64(time.Second) {
						t.Errorf("the task has spent %+v", *works.Time)
					}
					return
				}
			})
			n.Scope().Cancel(nil)
			return nil
		})
	})
}
