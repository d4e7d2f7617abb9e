package inspect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/probe"
)

// taskTree is the tree of some tasks, which are in the order of loops and ids.
type taskTree struct {
	branches []branch // by task
	tops     []int32  // the tasks without a parent here
}

// branch is the place of a task in the tree. No task has the index -1.
type branch struct {
	parent      int32
	first, last int32 // children
	next        int32 // sibling
	depth       int32
}

// taskRows is the tasks of a tree, by index.
type taskRows interface {
	matches(q *query, i int) bool
	nameOf(i int32) string
	numberOf(i int32, by string) int64 // what an order compares
}

func newTaskTree(n int) taskTree { return taskTree{branches: make([]branch, n)} }

// attach puts a task below its parent, behind the children that are there. A task is at
// the top if its parent has ended. Tasks are attached in their order.
func (tt *taskTree) attach(i, parent int) {
	b := &tt.branches[i]
	*b = branch{parent: -1, first: -1, last: -1, next: -1}
	if parent < 0 || parent >= i { // a parent is older than its children
		tt.tops = append(tt.tops, int32(i))
		return
	}
	p := &tt.branches[parent]
	b.parent, b.depth = int32(parent), p.depth+1
	if p.last < 0 {
		p.first = int32(i)
	} else {
		tt.branches[p.last].next = int32(i)
	}
	p.last = int32(i)
}

// ordered returns the tasks that a query asks for, in its order.
func (tt *taskTree) ordered(q *query, of taskRows) (rows []int32) {
	if q.sort == "tree" {
		return tt.inTreeOrder(q, of)
	}
	for i := range tt.branches {
		if of.matches(q, i) {
			rows = append(rows, int32(i))
		}
	}
	switch q.sort {
	case "id":
		if q.descending {
			slices.Reverse(rows)
		}
	case "age":
		if !q.descending {
			slices.Reverse(rows) // among tasks of the same age the greater id is younger
		}
		sortBy(rows, q, func(i int32) int64 { return of.numberOf(i, "age") })
	case "name":
		sortBy(rows, q, of.nameOf)
	default:
		sortBy(rows, q, func(i int32) int64 { return of.numberOf(i, q.sort) })
	}
	return rows
}

// sortBy sorts tasks by a key. Those with the same key keep their order.
func sortBy[K cmp.Ordered](rows []int32, q *query, key func(int32) K) {
	type keyed struct {
		key K
		row int32
	}
	all := make([]keyed, len(rows))
	for i, row := range rows {
		all[i] = keyed{key(row), row}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		if q.descending {
			a, b = b, a
		}
		return cmp.Compare(a.key, b.key)
	})
	for i := range all {
		rows[i] = all[i].row
	}
}

// inTreeOrder returns the tasks that match, and those above them, each below its parent.
func (tt *taskTree) inTreeOrder(q *query, of taskRows) (rows []int32) {
	shown := make([]bool, len(tt.branches))
	for i := range tt.branches {
		if !shown[i] && of.matches(q, i) {
			for at := int32(i); at >= 0 && !shown[at]; at = tt.branches[at].parent {
				shown[at] = true
			}
		}
	}
	for _, top := range tt.tops {
		for at := top; at >= 0; at = tt.following(at, shown[at]) {
			if shown[at] {
				rows = append(rows, at)
			}
		}
	}
	return rows
}

// following returns the task behind one in the order of the tree, below the same top, or
// -1. If inside is false it leaves out the tasks below it.
func (tt *taskTree) following(at int32, inside bool) int32 {
	if inside && tt.branches[at].first >= 0 {
		return tt.branches[at].first
	}
	for tt.branches[at].next < 0 {
		if at = tt.branches[at].parent; at < 0 {
			return -1
		}
	}
	return tt.branches[at].next
}

// recordedForest is the tasks of a recorded snapshot.
type recordedForest struct {
	taskTree
	tasks []inspectapi.Task
}

// newRecordedForest makes a forest. It keeps the tasks.
func newRecordedForest(tasks []inspectapi.Task) *recordedForest {
	slices.SortFunc(tasks, func(a, b inspectapi.Task) int { return compareIDs(a.ID, b.ID) })
	f := &recordedForest{newTaskTree(len(tasks)), tasks}
	byID := make(map[string]int, len(tasks))
	for i := range tasks {
		byID[tasks[i].ID] = i
		parent, ok := byID[tasks[i].Parent]
		if !ok {
			parent = -1
		}
		f.attach(i, parent)
	}
	return f
}

// compareIDs compares the ids of tasks by the numbers in them.
func compareIDs(a, b string) int {
	loopA, a, _ := strings.Cut(a, ".")
	loopB, b, _ := strings.Cut(b, ".")
	return cmp.Or(cmp.Compare(len(loopA), len(loopB)), cmp.Compare(loopA, loopB), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// page returns the tasks that a query asks for.
func (f *recordedForest) page(q *query) ([]inspectapi.Task, inspectapi.Paging) {
	rows := f.ordered(q, f)
	at, end := q.window(len(rows))
	page := make([]inspectapi.Task, 0, end-at)
	for _, i := range rows[at:end] {
		page = append(page, f.tasks[i])
	}
	return page, inspectapi.Paging{Total: len(f.tasks), Matched: len(rows), Offset: at, Limit: q.limit}
}

func (f *recordedForest) matches(q *query, i int) bool {
	t := &f.tasks[i]
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

// ageOf returns the age of a task as orders compare it; see entry.age.
func ageOf(t *inspectapi.Task) int64 {
	switch {
	case t.State == stateNames[probe.Fresh]:
		return youngest
	case t.Time == nil || !t.Time.Whole:
		return oldest
	}
	return t.Time.AgeNS
}

func (f *recordedForest) nameOf(i int32) string { return f.tasks[i].Name }

func (f *recordedForest) numberOf(i int32, by string) int64 {
	t := &f.tasks[i]
	switch {
	case by == "waits":
		return t.WaitsNS
	case by == "age":
		return ageOf(t)
	case t.Time == nil:
		return -1
	}
	switch by {
	case "busy":
		return t.Time.BusyNS
	case "ready":
		return t.Time.ReadyNS
	case "waiting":
		return t.Time.WaitingNS
	case "switches":
		return int64(t.Time.Switches)
	}
	return 0
}
