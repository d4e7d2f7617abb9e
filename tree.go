package spindle

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strings"
	"time"

	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/goid"
)

// Tree describes the tasks of a run at one moment, in the order in which they were started.
// The tasks of a nursery follow the task that opened it. At the end are the tasks of
// services on the same loop, such as the requests of a web server: those of nurseries that
// NurseryOn opened.
type Tree []TaskInfo

// TaskInfo describes a task.
type TaskInfo struct {
	Name     string
	Function string // where its function is
	Started  string // where it was started, if Options.Trace is on
	State    string // fresh, ready, running, waiting
	WaitsFor string // what it waits for
	HeldBy   string // the name of the task that holds the lock it waits for, if that is known
	At       string // the line at which it waits, as "file:line (function)"; not from TasksOf
	For      time.Duration
	Deadline time.Time // of the scope it is in; zero for none
	Canceled bool      // the scope it is in is cancelled
	Depth    int       // how many nurseries it is inside

	task *Task
}

// TreeOf returns the tree of the run that ctx belongs to. It is for tasks and callbacks of
// its loop. It is for debugging: finding the lines at which tasks wait takes a dump of all
// goroutines of the process.
func TreeOf(ctx context.Context) Tree {
	tree := treeOf(ctx, "TreeOf")
	tree.locate()
	return tree
}

// TasksOf is TreeOf without the lines at which tasks wait. Its cost depends only on the
// number of tasks.
func TasksOf(ctx context.Context) Tree { return treeOf(ctx, "TasksOf") }

func treeOf(ctx context.Context, op string) Tree {
	scope := scopeOf(ctx)
	if scope == nil {
		panic(notInTask(op))
	}
	scope.s.only(op)
	tree := scope.run.tree()
	for _, r := range scope.s.runs {
		if r.service && r != scope.run {
			tree = append(tree, r.tree()...)
		}
	}
	return tree
}

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

// tasks returns the tasks that have not ended, in the order in which they were started.
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
	info := TaskInfo{Name: t.Name(), State: t.state(), Canceled: t.scope.canceledBy != nil, Depth: depth}
	info.Function, info.Started = t.place(), r.origins.started(t)
	info.task = t
	if t.waiting() {
		what, since, ab := t.co.Wait()
		info.WaitsFor, info.For = what, r.s.l.Internal().TurnTime()-since
		if lock, ok := ab.(interface{ Holder() coro.Ref }); ok {
			info.HeldBy = lock.Holder().Name()
		}
	}
	if d := t.scope.deadline.Load(); d != noDeadline {
		info.Deadline = timeOf(r.s.l, time.Duration(d))
	}
	return info
}

// locate finds the lines at which the tasks of a tree wait, by a dump of all goroutines. The
// tasks must not have continued since the tree was made.
func (t Tree) locate() {
	numbers := make([]uint64, len(t))
	for i := range t {
		if co := t[i].task.co; co != nil {
			numbers[i] = goid.NumberOf(co.Goroutine())
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
		if task.HeldBy != "" {
			fmt.Fprintf(&b, ", held by %s,", task.HeldBy)
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

// origins has the origin of each task of a run with Options.Trace. Loop goroutine only.
type origins map[*Task]origin

// origin is where a task was started.
type origin struct {
	function string     // where its function is
	code     uintptr    // of its function
	callers  [6]uintptr // of the code that started it, innermost first
}

// add records where t is started, and makes its function run with its label and in a
// region of its own. The label is made here, because making it in the task would double
// the size of the task's stack.
func (o origins) add(t *Task) {
	var from origin
	t.name, from.function, from.code = t.Name(), t.place(), t.codeOf()
	runtime.Callers(3, from.callers[:])
	o[t] = from
	label := pprof.WithLabels(context.Background(), pprof.Labels("task", t.name))
	fn := t.fn
	t.fn = func(ctx context.Context) error {
		pprof.SetGoroutineLabels(label)
		defer pprof.SetGoroutineLabels(context.Background())
		defer trace.StartRegion(label, t.name).End()
		return fn(ctx)
	}
}

// started returns where t was started: the line in the innermost function outside of this
// package.
func (o origins) started(t *Task) string {
	from, ok := o[t]
	if !ok {
		return ""
	}
	for frames := runtime.CallersFrames(from.callers[:]); ; {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "github.com/spindleloop/spindle.") {
			return fmt.Sprintf("%s:%d", path.Base(frame.File), frame.Line)
		}
		if !more {
			return ""
		}
	}
}
