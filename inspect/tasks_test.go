package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/until"
)

// tasksOf returns the tasks of the loop with a name.
func tasksOf(t testing.TB, name, query string) inspectapi.TasksAnswer {
	t.Helper()
	return get[inspectapi.TasksAnswer](t, inspect.Options{}, "/api/v1/tasks?loop="+loopNamed(t, name).ID+"&"+query)
}

func hasTask(tasks []inspectapi.Task, name string) bool {
	return slices.ContainsFunc(tasks, func(task inspectapi.Task) bool { return task.Name == name })
}

func taskNamed(t testing.TB, tasks []inspectapi.Task, name string) inspectapi.Task {
	t.Helper()
	i := slices.IndexFunc(tasks, func(task inspectapi.Task) bool { return task.Name == name })
	if i < 0 {
		t.Fatalf("no task %q among %+v", name, tasks)
	}
	return tasks[i]
}

func TestTasksShowTreeStateAndDeadline(t *testing.T) {
	run(t, "tree", func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "child"}, func(ctx context.Context) error {
				_, err := spindle.MoveOnAfter(ctx, time.Hour, func(ctx context.Context) error {
					return spindle.Sleep(ctx, 2*time.Hour)
				})
				return err
			})
			outside(func() {
				var tasks []inspectapi.Task
				until.Tried(func() bool {
					tasks = tasksOf(t, "tree", "sort=tree").Tasks
					return hasTask(tasks, "child") && taskNamed(t, tasks, "child").WaitsFor == "Sleep"
				})
				parent, child := taskNamed(t, tasks, "main"), taskNamed(t, tasks, "child")
				if child.Parent != parent.ID || child.Depth != 1 || parent.Depth != 0 {
					t.Errorf("the tree is %+v", tasks)
				}
				if child.State != "waiting" || child.WaitsFor != "Sleep" {
					t.Errorf("the child is %s for %s", child.State, child.WaitsFor)
				}
				if left := child.DeadlineLeftNS; left == nil || time.Duration(*left) > time.Hour || *left <= 0 {
					t.Errorf("the child's deadline is %v", left)
				}
				if parent.DeadlineLeftNS != nil || parent.Nursery == child.Nursery || parent.Scope == child.Scope {
					t.Errorf("the parent is %+v", parent)
				}
			})
			n.Scope().Cancel(nil)
			return nil
		})
	})
}

func TestTasksAreFilteredSortedAndPaged(t *testing.T) {
	run(t, "many", func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for i := range 1000 {
				n.GoWith(spindle.TaskOptions{Name: fmt.Sprintf("worker-%03d", i)}, func(ctx context.Context) error {
					return spindle.Sleep(ctx, time.Hour)
				})
			}
			outside(func() {
				var a inspectapi.TasksAnswer
				until.Tried(func() bool {
					a = tasksOf(t, "many", "q=Worker-9&sort=-name&offset=10&limit=5")
					return a.Total == 1001
				})
				if a.Total != 1001 || a.Matched != 100 || a.Offset != 10 || len(a.Tasks) != 5 || a.Tasks[0].Name != "worker-989" {
					t.Errorf("%d tasks of %d, %d match, from %d: %+v", len(a.Tasks), a.Total, a.Matched, a.Offset, a.Tasks)
				}
				until.Tried(func() bool {
					a = tasksOf(t, "many", "state=waiting")
					return a.Matched == 1001
				})
				if a.Matched != 1001 {
					t.Errorf("%d tasks are waiting", a.Matched)
				}
				if a = tasksOf(t, "many", "state=running"); a.Matched != 0 {
					t.Errorf("%d tasks are running", a.Matched)
				}
				if a = tasksOf(t, "many", "q=worker-777&sort=tree"); a.Matched != 2 || a.Tasks[0].Name != "main" {
					t.Errorf("in tree order: %+v", a.Tasks)
				}
			})
			n.Scope().Cancel(nil)
			return nil
		})
	})
}

// A task that is cancelled and has not ended yet shows why.
func TestTaskShowsItsCancelReason(t *testing.T) {
	run(t, "cancelled", func(ctx context.Context, _ func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			waits := false
			n.GoWith(spindle.TaskOptions{Name: "victim"}, func(ctx context.Context) error {
				waits = true
				return spindle.Sleep(ctx, time.Hour)
			})
			for !waits {
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			if victim := taskNamed(t, inspect.Snapshot(ctx).Tasks, "victim"); victim.CancelReason != "" || victim.State != "waiting" {
				t.Errorf("before it is cancelled the task is %+v", victim)
			}
			n.Scope().Cancel(errors.New("the shop closes"))
			if victim := taskNamed(t, inspect.Snapshot(ctx).Tasks, "victim"); !strings.Contains(victim.CancelReason, "the shop closes") || victim.State != "ready" {
				t.Errorf("when it is cancelled the task is %+v", victim)
			}
			return nil
		})
	})
}

// A task that is started while the inspector is attached shows the line that started it.
func TestTaskShowsWhereItWasStarted(t *testing.T) {
	inspect.ShortPauses(t)
	run(t, "started", func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			started := ""
			for i := 0; started == ""; i++ { // the inspector is attached soon after the first request
				name := fmt.Sprintf("child %d", i)
				n.GoWith(spindle.TaskOptions{Name: name}, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
				outside(func() {
					var a inspectapi.TasksAnswer
					until.Tried(func() bool {
						a = tasksOf(t, "started", "q="+url.QueryEscape(name))
						return hasTask(a.Tasks, name)
					})
					started = taskNamed(t, a.Tasks, name).Started
				})
			}
			if !strings.Contains(started, "tasks_test.go:") {
				t.Errorf("the task was started at %q", started)
			}
			n.Scope().Cancel(nil)
			return nil
		})
	})
}

// sleepsUntilCancelled is a function that stacks can name.
//
//go:noinline
func sleepsUntilCancelled(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) }

func TestTaskShowsItsStack(t *testing.T) {
	run(t, "stacks", func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "sleeper"}, sleepsUntilCancelled)
			outside(func() {
				var a inspectapi.TasksAnswer
				until.Tried(func() bool {
					a = tasksOf(t, "stacks", "q=sleeper")
					return hasTask(a.Tasks, "sleeper") && taskNamed(t, a.Tasks, "sleeper").State == "waiting"
				})
				id := taskNamed(t, a.Tasks, "sleeper").ID
				s := get[inspectapi.StackAnswer](t, inspect.Options{}, "/api/v1/stack?force=1&task="+id)
				if s.Task != id || !strings.Contains(s.Stack, "sleepsUntilCancelled") || !strings.Contains(s.At, "tasks_test.go:") {
					t.Errorf("the stack of %s at %s:\n%s", s.Task, s.At, s.Stack)
				}
				if status, _ := request(inspect.Options{}, "GET", "/api/v1/stack?task="+id+"99", nil); status != http.StatusNotFound {
					t.Errorf("the stack of a task that does not exist: %d", status)
				}
			})
			n.Scope().Cancel(nil)
			return nil
		})
	})
}
