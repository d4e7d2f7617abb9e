package inspect

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/spindleloop/spindle/internal/probe"
)

// forest is the tasks of some loops. It does not change once it is made.
type forest struct {
	snaps []*taskSnapshot
	tasks []Task
	byID  map[string]int // index in tasks
	graph *graph
}

// forests has the last forest for each choice of loops: all, or one.
var forests struct {
	mu     sync.Mutex
	byLoop map[string]*forest // guarded by mu
}

// readForest takes snapshots of the tasks of all loops, or of one. Requests that see the
// same snapshots share a forest.
func readForest(loop string) (*forest, []TaskLoop) {
	all := (&query{loop: loop}).sources()
	var snaps []*taskSnapshot
	var loops []TaskLoop
	for _, s := range all {
		snap, stale := s.readTasks()
		snaps = append(snaps, snap)
		loops = append(loops, s.describeTasks(snap, stale))
	}
	forests.mu.Lock()
	defer forests.mu.Unlock()
	if f := forests.byLoop[loop]; f != nil && slices.Equal(f.snaps, snaps) {
		return f, loops
	}
	f := newForest(all, snaps)
	if forests.byLoop == nil || len(forests.byLoop) > maxForests {
		forests.byLoop = make(map[string]*forest)
	}
	forests.byLoop[loop] = f
	return f, loops
}

// newForest makes the forest of the snapshots of loops.
func newForest(all []*source, snaps []*taskSnapshot) *forest {
	f := &forest{snaps: snaps, byID: make(map[string]int), graph: newGraph()}
	for i, s := range all {
		f.add(s, snaps[i])
		f.graph.add(s.id, snaps[i])
	}
	f.measureDepth()
	f.graph.findCycles()
	f.graph.mark(f.tasks)
	return f
}

// forgetForests releases the forests.
func forgetForests() {
	forests.mu.Lock()
	defer forests.mu.Unlock()
	forests.byLoop = nil
}

// maxForests bounds the memory of forests.
const maxForests = 8

// describeTasks describes how the tasks of a loop were read.
func (s *source) describeTasks(snap *taskSnapshot, stale bool) TaskLoop {
	info := TaskLoop{ID: s.id, Name: s.core.Name(), Stale: stale}
	if snap != nil {
		info.AgeNS, info.Slices = int64(now()-snap.at), snap.slices
		info.SlicesNS, info.LongNS = int64(snap.held), int64(snap.long)
	}
	return info
}

// add adds the tasks of a loop.
func (f *forest) add(s *source, snap *taskSnapshot) {
	snap.each(func(r *row) {
		t := r.task(s.id, snap)
		f.byID[t.ID] = len(f.tasks)
		f.tasks = append(f.tasks, t)
	})
}

var stateNames = [...]string{probe.Fresh: "fresh", probe.Ready: "ready", probe.Running: "running", probe.Waiting: "waiting"}

var priorityNames = [...]string{"", "high", "low"}

// task makes the Task of a row.
func (r *row) task(loop string, snap *taskSnapshot) Task {
	f := functionAt(r.Code)
	t := Task{
		ID:           taskID(loop, r.ID),
		Loop:         loop,
		Parent:       taskID(loop, r.Parent),
		Name:         cmp.Or(r.Name, f.name, "task"),
		Function:     cmp.Or(r.Function, f.place, f.name),
		Started:      callSite(r.Started[:]),
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
		t.WaitsNS = int64(max(snap.clock-r.WaitsSince, 0))
		t.WaitsOn = cmp.Or(objectID(loop, 'o', r.object.ID), t.HeldBy, objectID(loop, 'o', r.Lot))
	}
	if r.Deadline != probe.NoDeadline {
		left := int64(r.Deadline - snap.clock)
		t.DeadlineLeftNS = &left
	}
	if r.Account != nil {
		t.Time = timeOf(r.Account, snap)
	}
	return t
}

func timeOf(a *probe.Account, snap *taskSnapshot) *TaskTime {
	return &TaskTime{
		AgeNS:     int64(snap.clock - a.Began),
		Whole:     a.Whole,
		BusyNS:    int64(a.Busy),
		ReadyNS:   int64(a.Ready),
		WaitingNS: int64(a.Waiting),
		Switches:  a.Switches,
	}
}

// measureDepth sets Depth and HeldByName. A task is at the top if its parent has ended.
func (f *forest) measureDepth() {
	depth := make([]int, len(f.tasks)) // plus one; 0 for unknown
	var path []int
	for i := range f.tasks {
		path = path[:0]
		at := i
		for depth[at] == 0 {
			path = append(path, at)
			parent, ok := f.byID[f.tasks[at].Parent]
			if !ok || len(path) > len(f.tasks) {
				break
			}
			at = parent
		}
		for n := len(path) - 1; n >= 0; n-- {
			above := 0
			if parent, ok := f.byID[f.tasks[path[n]].Parent]; ok {
				above = depth[parent]
			}
			depth[path[n]] = above + 1
		}
		t := &f.tasks[i]
		t.Depth = depth[i] - 1
		if holder, ok := f.byID[t.HeldBy]; ok {
			t.HeldByName = f.tasks[holder].Name
		}
	}
}

// matches reports whether a task passes the filter.
func (q *query) matches(t *Task) bool {
	switch {
	case q.state != "" && t.State != q.state:
	case q.parent != "" && t.Parent != q.parent:
	case q.scope != "" && t.Scope != q.scope:
	case q.nursery != "" && t.Nursery != q.nursery:
	case q.text != "" && !q.found(t.Name, t.Function, t.Started, t.WaitsFor, t.ID):
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

// page returns the tasks that a query asks for.
func (f *forest) page(q *query) ([]Task, Paging) {
	var rows []*Task
	if q.sort == "tree" {
		rows = f.inTreeOrder(q)
	} else {
		for i := range f.tasks {
			if q.matches(&f.tasks[i]) {
				rows = append(rows, &f.tasks[i])
			}
		}
		slices.SortStableFunc(rows, taskOrder(q))
	}
	at, end := q.window(len(rows))
	page := make([]Task, 0, end-at)
	for _, t := range rows[at:end] {
		page = append(page, *t)
	}
	return page, Paging{Total: len(f.tasks), Matched: len(rows), Offset: at, Limit: q.limit}
}

// inTreeOrder returns the tasks that match, and those above them, each below its parent.
func (f *forest) inTreeOrder(q *query) (rows []*Task) {
	shown := make([]bool, len(f.tasks))
	children := make([][]int, len(f.tasks))
	var tops []int
	for i := range f.tasks {
		if parent, ok := f.byID[f.tasks[i].Parent]; ok {
			children[parent] = append(children[parent], i)
		} else {
			tops = append(tops, i)
		}
		if !shown[i] && q.matches(&f.tasks[i]) {
			for at, ok := i, true; ok && !shown[at]; at, ok = f.byID[f.tasks[at].Parent] {
				shown[at] = true
			}
		}
	}
	var add func(level []int)
	add = func(level []int) {
		slices.SortFunc(level, func(a, b int) int { return compareIDs(f.tasks[a].ID, f.tasks[b].ID) })
		for _, i := range level {
			if shown[i] {
				rows = append(rows, &f.tasks[i])
			}
			add(children[i])
		}
	}
	add(tops)
	return rows
}

// compareIDs compares ids by the numbers in them.
func compareIDs(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// taskOrder returns the order that a query asks for.
func taskOrder(q *query) func(a, b *Task) int {
	number := func(t *Task) int64 {
		if t.Time == nil && q.sort != "waits" {
			return -1
		}
		switch q.sort {
		case "busy":
			return t.Time.BusyNS
		case "ready":
			return t.Time.ReadyNS
		case "waiting":
			return t.Time.WaitingNS
		case "switches":
			return int64(t.Time.Switches)
		case "waits":
			return t.WaitsNS
		}
		return 0
	}
	compare := func(a, b *Task) int { return cmp.Compare(number(a), number(b)) }
	switch q.sort {
	case "id", "age":
		compare = func(a, b *Task) int { return compareIDs(a.ID, b.ID) }
	case "name":
		compare = func(a, b *Task) int { return cmp.Compare(a.Name, b.Name) }
	}
	if q.descending != (q.sort == "age") { // the oldest task has the least id
		return func(a, b *Task) int { return compare(b, a) }
	}
	return compare
}
