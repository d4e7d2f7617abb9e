package inspect

import (
	"cmp"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle/internal/inspectapi"
)

// forest is the tasks of some loops, in the order of loops and ids. It does not change once
// it is made. It has the rows of snapshots as they are: a page of rows becomes texts when it
// is asked for, which takes a hundred times longer than finding it.
type forest struct {
	snaps   []*taskSnapshot
	entries []entry
	taskTree
	cycles cycles
	graph  func() *graph // made when it is asked for first
	users  atomic.Int32  // the snapshots are released when there are none
}

// loopTasks is the tasks of a loop.
type loopTasks struct {
	id      string
	snap    *taskSnapshot
	numbers *objectNumbers
	from    int     // the index of the first in forest.entries
	entries []entry // in the order of ids
}

// entry is a task in a forest.
type entry struct {
	*row
	loop *loopTasks
}

// forests has the last forest for each choice of loops: all, or one.
var forests struct {
	mu     sync.Mutex
	byLoop map[string]*forest // guarded by mu
}

// readForest takes snapshots of the tasks of all loops, or of one. Requests that see the
// same snapshots share a forest. The caller calls release when it is done with it, if it
// can.
func readForest(loop string) (*forest, []inspectapi.TaskLoop) {
	all := (&query{loop: loop}).sources()
	var snaps []*taskSnapshot
	var loops []inspectapi.TaskLoop
	for _, s := range all {
		snap, stale := s.readTasks()
		snaps = append(snaps, snap)
		loops = append(loops, s.describeTasks(snap, stale))
	}
	forests.mu.Lock()
	defer forests.mu.Unlock()
	last := forests.byLoop[loop]
	if last != nil && slices.Equal(last.snaps, snaps) {
		last.users.Add(1)
		releaseAll(snaps) // last has them
		return last, loops
	}
	if forests.byLoop == nil || len(forests.byLoop) > maxForests {
		forests.byLoop = make(map[string]*forest)
	}
	f := newForest(all, snaps)
	f.users.Store(2) // byLoop and the caller
	forests.byLoop[loop] = f
	if last != nil {
		last.release()
	}
	return f, loops
}

// release says that a caller of readForest does not use the forest any more. See
// taskSnapshot.release.
func (f *forest) release() {
	if f.users.Add(-1) == 0 {
		releaseAll(f.snaps)
	}
}

func releaseAll(snaps []*taskSnapshot) {
	for _, snap := range snaps {
		snap.release()
	}
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
func (s *source) describeTasks(snap *taskSnapshot, stale bool) inspectapi.TaskLoop {
	info := inspectapi.TaskLoop{ID: s.id, Name: s.l.Internal().Name(), Stale: stale}
	if snap != nil {
		info.AgeNS, info.Slices = int64(now()-snap.at), snap.slices
		info.SlicesNS, info.LongNS = int64(snap.held), int64(snap.long)
	}
	return info
}

// newForest makes the forest of the snapshots of loops.
func newForest(all []*source, snaps []*taskSnapshot) *forest {
	f := &forest{snaps: snaps}
	n := 0
	for _, snap := range snaps {
		if snap != nil {
			n += snap.n
		}
	}
	f.entries, f.taskTree = make([]entry, 0, n), newTaskTree(n)
	for i, s := range all {
		f.add(&loopTasks{id: s.id, snap: snaps[i], numbers: &s.numbers})
	}
	f.cycles = f.findCycles()
	f.graph = sync.OnceValue(func() *graph { return newGraph(f) })
	return f
}

// add adds the tasks of a loop.
func (f *forest) add(l *loopTasks) {
	l.from = len(f.entries)
	l.snap.each(func(r *row) { f.entries = append(f.entries, entry{r, l}) })
	l.entries = f.entries[l.from:]
	byID := func(a, b entry) int { return cmp.Compare(a.ID, b.ID) }
	if !slices.IsSortedFunc(l.entries, byID) {
		slices.SortFunc(l.entries, byID)
	}
	above, parent := uint64(0), -1 // neighbours mostly have the same parent
	for at := range l.entries {
		e, i := &l.entries[at], l.from+at
		if e.Parent != above {
			above, parent = e.Parent, l.find(e.Parent)
		}
		f.attach(i, parent)
	}
}

// find returns the index of the task with an id among all entries, or -1.
func (l *loopTasks) find(id uint64) int {
	at := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].ID >= id })
	if at == len(l.entries) || l.entries[at].ID != id {
		return -1
	}
	return l.from + at
}

// page returns the tasks that a query asks for.
func (f *forest) page(q *query) ([]inspectapi.Task, inspectapi.Paging) {
	rows := f.ordered(q)
	at, end := q.window(len(rows))
	return f.tasks(rows[at:end]), inspectapi.Paging{Total: len(f.entries), Matched: len(rows), Offset: at, Limit: q.limit}
}

// tasks makes the Tasks of entries.
func (f *forest) tasks(rows []int32) []inspectapi.Task {
	tasks := make([]inspectapi.Task, 0, len(rows))
	for _, i := range rows {
		e := &f.entries[i]
		t := e.row.task(e.loop.id, e.loop.snap)
		t.Depth = int(f.branches[i].depth)
		t.Cycle = f.cycles.of[e.ref()] != nil
		if holder := e.loop.find(e.WaitsOnTask); holder >= 0 {
			t.HeldByName = f.entries[holder].name()
		}
		tasks = append(tasks, t)
	}
	return tasks
}

// ordered returns the entries that a query asks for, in its order.
func (f *forest) ordered(q *query) []int32 { return f.taskTree.ordered(q, f) }

func (f *forest) matches(q *query, i int) bool      { return q.matches(&f.entries[i]) }
func (f *forest) nameOf(i int32) string             { return f.entries[i].name() }
func (f *forest) numberOf(i int32, by string) int64 { return f.entries[i].number(by) }
