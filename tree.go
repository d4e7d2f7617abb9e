package spindle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
)

// Tree is a picture of the tasks of a run at one moment, in the order in which
// they were started, children below the task whose nursery they are in.
type Tree []TaskInfo

// TaskInfo is what can be seen of a task from outside.
type TaskInfo struct {
	Name     string
	Function string // where its function is
	Started  string // where it was started, if Options.Trace is on
	State    string // fresh, ready, running, waiting
	WaitsFor string // what it waits for
	At       string // the line at which it waits, as "file:line (function)"; only in a LoopError
	For      time.Duration
	Deadline time.Duration // of the scope it is in, on the loop's clock; 0 for none
	Canceled bool          // the scope it is in is cancelled
	Depth    int           // how many nurseries it is inside

	task *Task
}

// TreeOf is the tree of the run that ctx belongs to. It is for tasks and
// callbacks of its loop.
func TreeOf(ctx context.Context) Tree {
	scope := scopeOf(ctx)
	if scope == nil {
		panic(foreign("TreeOf"))
	}
	scope.s.only("TreeOf")
	return scope.run.tree()
}

var stateNames = [...]string{fresh: "fresh", ready: "ready", running: "running", waiting: "waiting", finished: "finished"}

func (r *run) tree() (tree Tree) {
	children := map[*Task][]*Task{}
	for _, t := range r.tasks() {
		children[t.nursery.owner] = append(children[t.nursery.owner], t)
	}
	var add func(parent *Task, depth int)
	add = func(parent *Task, depth int) {
		for _, t := range children[parent] {
			tree = append(tree, r.info(t, depth))
			add(t, depth+1)
		}
	}
	add(nil, 0)
	return tree
}

// tasks are all that have not finished, in the order in which they were started.
func (r *run) tasks() (tasks []*Task) {
	var add func(sc *Scope)
	add = func(sc *Scope) {
		tasks = append(tasks, sc.tasks.all()...)
		for child := sc.first; child != nil; child = child.behind {
			add(child)
		}
	}
	add(r.root.scope)
	slices.SortFunc(tasks, func(a, b *Task) int { return cmp.Compare(a.id, b.id) })
	return tasks
}

func (r *run) info(t *Task, depth int) TaskInfo {
	info := TaskInfo{Name: t.Name(), State: stateNames[t.state], Canceled: t.scope.blame != nil, Depth: depth}
	info.Function, info.Started = t.place(), r.traced.started(t)
	info.task = t
	if t.state == waiting {
		info.WaitsFor, info.For = t.co.what, r.s.l.TurnTime()-t.co.since
	}
	if d := t.scope.deadline.Load(); d != noDeadline {
		info.Deadline = time.Duration(d)
	}
	return info
}

// locate finds out at which lines the tasks of a tree are, which takes a dump of all
// goroutines. The tasks must not have gone on since.
func (t Tree) locate() {
	numbers := make([]uint64, len(t))
	for i := range t {
		if co := t[i].task.co; co != nil {
			numbers[i] = goid.NumberOf(co.g)
		}
	}
	stacks := goid.Stacks(numbers...)
	for i := range t {
		t[i].At = goid.Line(stacks[numbers[i]])
	}
}

func (t Tree) String() string {
	var b strings.Builder
	for _, task := range t {
		fmt.Fprintf(&b, "%s%s (%s): %s", strings.Repeat("  ", task.Depth), task.Name, task.Function, task.State)
		if task.WaitsFor != "" {
			fmt.Fprintf(&b, " for %s (%v)", task.WaitsFor, task.For)
		}
		if task.At != "" {
			fmt.Fprintf(&b, " at %s", task.At)
		}
		if task.Started != "" {
			fmt.Fprintf(&b, ", started at %s", task.Started)
		}
		if task.Canceled {
			b.WriteString(", cancelled")
		}
		b.WriteByte('\n')
	}
	return b.String()
}
