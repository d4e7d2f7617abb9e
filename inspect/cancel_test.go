package inspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/until"
)

// forever waits until it is cancelled.
func forever(ctx context.Context) error { return spindle.Sleep(ctx, 24*time.Hour) }

// family starts a program with these tasks: a child of the root, and a parent with two
// leaves and a poller, which waits in one time-out after the other.
func family(t *testing.T, name string, look func()) {
	t.Helper()
	named := func(name string) spindle.TaskOptions { return spindle.TaskOptions{Name: name} }
	run(t, name, func(ctx context.Context, outside func(func())) error {
		spindle.RootNursery(ctx).GoWith(named("child of the root"), forever)
		return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
			n.GoWith(named("parent"), func(ctx context.Context) error {
				return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
					n.GoWith(named("leaf 1"), forever)
					n.GoWith(named("leaf 2"), forever)
					n.GoWith(named("poller"), func(ctx context.Context) error {
						for {
							if _, err := spindle.MoveOnAfter(ctx, time.Hour, forever); err != nil {
								return err
							}
						}
					})
					return nil
				})
			})
			outside(look)
			n.Scope().Cancel(nil)
			spindle.RootNursery(ctx).Scope().Cancel(nil)
			return nil
		})
	})
}

// familyOf returns the tasks of family by name when all of them wait.
func familyOf(t *testing.T, name string, names ...string) map[string]inspectapi.Task {
	t.Helper()
	byName := map[string]inspectapi.Task{}
	until.Tried(func() bool {
		clear(byName)
		for _, task := range tasksOf(t, name, "").Tasks {
			if task.Name != "main" && task.State == "waiting" {
				byName[task.Name] = task
			}
		}
		return len(byName) == len(names)
	})
	for _, want := range names {
		if _, ok := byName[want]; !ok {
			t.Fatalf("there is no task %q among %v", want, byName)
		}
	}
	return byName
}

// cancelled cancels, and returns the answer.
func cancelled(t *testing.T, params string) (a inspectapi.ActionAnswer) {
	t.Helper()
	status, body, _ := act("/api/v1/cancel?" + params)
	if err := json.Unmarshal(body, &a); err != nil || status != http.StatusOK {
		t.Fatalf("cancel?%s: %d %s", params, status, body)
	}
	return a
}

// TestCancelEndsTheTaskAlone cancels tasks one after the other. Each time exactly the task
// ends, with those that it has started.
func TestCancelEndsTheTaskAlone(t *testing.T) {
	family(t, "family", func() {
		all := []string{"child of the root", "leaf 1", "leaf 2", "parent", "poller"}
		for _, step := range []struct {
			cancel string
			ends   []string
			says   string
		}{
			{"leaf 1", []string{"leaf 1"}, "cancelled task %s"},
			{"poller", []string{"poller"}, "cancelled task %s"},
			{"child of the root", []string{"child of the root"}, "cancelled task %s"},
			{"parent", []string{"leaf 2", "parent"}, "cancelled task %s and 1 task below it"},
		} {
			id := familyOf(t, "family", all...)[step.cancel].ID
			if a := cancelled(t, "dry=1&task="+id); a.Tasks != len(step.ends) || a.Done != strings.Replace(fmt.Sprintf(step.says, id), "cancelled", "would cancel", 1) {
				t.Errorf("%s: asked first, it answers %+v", step.cancel, a)
			}
			familyOf(t, "family", all...) // nothing was cancelled
			if a := cancelled(t, "task="+id); a.Tasks != len(step.ends) || a.Done != fmt.Sprintf(step.says, id) {
				t.Errorf("%s: it answers %+v", step.cancel, a)
			}
			all = slices.DeleteFunc(all, func(name string) bool { return slices.Contains(step.ends, name) })
			familyOf(t, "family", all...)
		}
	})
}

// TestCancelRefusesWhatItDoesNotUnderstand asks for cancellations that must not happen.
func TestCancelRefusesWhatItDoesNotUnderstand(t *testing.T) {
	family(t, "refused", func() {
		all := []string{"child of the root", "leaf 1", "leaf 2", "parent", "poller"}
		id := familyOf(t, "refused", all...)["leaf 1"].ID
		for params, want := range map[string]int{
			"dry=true&task=" + id:         http.StatusOK,
			"dry=yes&task=" + id:          http.StatusBadRequest,
			"scope=" + id + "&task=" + id: http.StatusBadRequest,
			"task=leaf":                   http.StatusBadRequest,
			"task=" + id + "99":           http.StatusNotFound,
			"task=999999999.1":            http.StatusNotFound, // of a loop that is not there any more
		} {
			if status, body, _ := act("/api/v1/cancel?" + params); status != want {
				t.Errorf("%s: %d, want %d: %s", params, status, want, body)
			}
		}
		if status, body, _ := act("/api/v1/close?socket=999999999.f1"); status != http.StatusNotFound {
			t.Errorf("a socket of a loop that is not there any more: %d: %s", status, body)
		}
		familyOf(t, "refused", all...)
	})
}

// TestCancelOfAScopeSaysHowManyTasks cancels the nursery that a task belongs to.
func TestCancelOfAScopeSaysHowManyTasks(t *testing.T) {
	family(t, "scope", func() {
		scope := familyOf(t, "scope", "child of the root", "leaf 1", "leaf 2", "parent", "poller")["leaf 1"].Scope
		if a := cancelled(t, "dry=1&scope="+scope); a.Tasks != 4 || a.Done != "would cancel scope "+scope+" with 4 tasks" {
			t.Errorf("asked first, it answers %+v", a)
		}
		if a := cancelled(t, "scope="+scope); a.Tasks != 4 || a.Done != "cancelled scope "+scope+" with 4 tasks" {
			t.Errorf("it answers %+v", a)
		}
		familyOf(t, "scope", "child of the root")
	})
}

// TestCancelOfATaskInABlockOfAnother has a task that waits in a scope of its sibling. Only
// the wait of the task ends.
func TestCancelOfATaskInABlockOfAnother(t *testing.T) {
	run(t, "guest", func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "host"}, func(ctx context.Context) error {
				return spindle.WithScope(ctx, func(ctx context.Context, _ *spindle.Scope) error {
					n.GoWith(spindle.TaskOptions{Name: "guest"}, func(context.Context) error {
						return spindle.WithScope(ctx, func(ctx context.Context, _ *spindle.Scope) error { return forever(ctx) })
					})
					return forever(ctx)
				})
			})
			outside(func() {
				if a := cancelled(t, "task="+familyOf(t, "guest", "host", "guest")["guest"].ID); a.Tasks != 1 {
					t.Errorf("it answers %+v", a)
				}
				familyOf(t, "guest", "host")
			})
			n.Scope().Cancel(nil)
			return nil
		})
	})
}
