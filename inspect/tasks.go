package inspect

import (
	"cmp"
	"math"
	"strings"

	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/probe"
)

var stateNames = [...]string{probe.Fresh: "fresh", probe.Ready: "ready", probe.Running: "running", probe.Waiting: "waiting"}

var priorityNames = [...]string{"", "high", "low"}

// name returns the name of the task.
func (r *row) name() string {
	if r.Name != "" {
		return r.Name
	}
	return cmp.Or(functionAt(r.Code).name, "task")
}

// task makes the Task of a row.
func (r *row) task(loop string, snap *taskSnapshot) inspectapi.Task {
	f := functionAt(r.Code)
	t := inspectapi.Task{
		ID:           taskID(loop, r.ID),
		Loop:         loop,
		Parent:       taskID(loop, r.Parent),
		Name:         cmp.Or(r.Name, f.name, "task"),
		Function:     cmp.Or(r.Function, f.place, f.name),
		Started:      callSite(r.Started),
		State:        stateNames[r.State],
		Priority:     priorityNames[r.Priority],
		Service:      r.Service,
		Nursery:      objectID(loop, 'n', r.Nursery),
		Scope:        objectID(loop, 's', r.Scope),
		CancelReason: r.reason,
		WaitsFor:     r.WaitsFor,
		HeldBy:       taskID(loop, r.WaitsOnTask),
	}
	if r.State == probe.Waiting {
		t.WaitsNS = r.waited(snap)
		t.WaitsOn = cmp.Or(objectID(loop, 'o', r.object.ID), t.HeldBy, objectID(loop, 'o', r.Lot))
	}
	if r.Deadline != probe.NoDeadline {
		left := int64(r.Deadline - snap.clock)
		t.DeadlineLeftNS = &left
	}
	if r.Accounted {
		t.Time = timeOf(&r.Account, snap)
	}
	return t
}

// waited returns how long the task has waited, 0 if it does not.
func (r *row) waited(snap *taskSnapshot) int64 {
	if r.State != probe.Waiting {
		return 0
	}
	return int64(max(snap.clock-r.WaitsSince, 0))
}

func timeOf(a *probe.Account, snap *taskSnapshot) *inspectapi.TaskTime {
	return &inspectapi.TaskTime{
		AgeNS:     int64(snap.clock - a.Began),
		Whole:     a.Whole,
		BusyNS:    int64(a.Busy),
		ReadyNS:   int64(a.Ready),
		WaitingNS: int64(a.Waiting),
		Switches:  a.Switches,
	}
}

// number returns what an order of tasks compares.
func (e *entry) number(by string) int64 {
	switch {
	case by == "waits":
		return e.waited(e.loop.snap)
	case by == "age":
		return e.age()
	case !e.Accounted:
		return -1
	}
	switch by {
	case "busy":
		return int64(e.Account.Busy)
	case "ready":
		return int64(e.Account.Ready)
	case "waiting":
		return int64(e.Account.Waiting)
	case "switches":
		return int64(e.Account.Switches)
	}
	return 0
}

// The ages of tasks that have not begun, and of tasks that began before the inspector was
// attached.
const youngest, oldest = math.MinInt64, math.MaxInt64

// ageOf returns the age of a task as orders compare it: less what has passed since the
// inspector's clock began, because the snapshots of loops are not of the same moment.
func (e *entry) age() int64 {
	snap := e.loop.snap
	switch {
	case e.State == probe.Fresh:
		return youngest
	case !e.Accounted || !e.Account.Whole:
		return oldest
	}
	return int64(snap.clock - e.Account.Began - snap.at)
}

// matches reports whether a task passes the filter.
func (q *query) matches(e *entry) bool {
	loop := e.loop.id
	switch {
	case q.state != "" && stateNames[e.State] != q.state:
	case q.parent != "" && taskID(loop, e.Parent) != q.parent:
	case q.scope != "" && objectID(loop, 's', e.Scope) != q.scope:
	case q.nursery != "" && objectID(loop, 'n', e.Nursery) != q.nursery:
	case q.text != "" && !strings.Contains(functionAt(e.Code).lower, q.text) &&
		!q.found(e.Name, e.Function, callSite(e.Started), e.WaitsFor, taskID(loop, e.ID)):
	default:
		return true
	}
	return false
}

// found reports whether the text of the query is in one of the texts.
func (q *query) found(texts ...string) bool {
	for _, text := range texts {
		if strings.Contains(strings.ToLower(text), q.text) {
			return true
		}
	}
	return false
}
