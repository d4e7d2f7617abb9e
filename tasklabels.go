package spindle

import (
	"context"
	"runtime/pprof"

	"github.com/spindleloop/spindle/internal/goid"
)

// While an inspector is attached, the goroutines of tasks have the pprof label "task" with
// the name of their task, so that profiles of goroutines and of the CPU show tasks. A task
// that begins sets the label itself. A task that waits already gets it from the walk that
// visits it: the labels are a word in the runtime's g, at an offset that the scheduler has
// found, and a suspended goroutine does not use it.

// taskLabels is the labels that tasks were given, by name. Loop goroutine only.
type taskLabels map[string]taskLabel

// taskLabel is a label. The context keeps the word alive.
type taskLabel struct {
	ctx  context.Context
	word uintptr // as a g has it; 0 if the offset is unknown
}

// maxLabels bounds the names that get a label of their own.
const maxLabels = 1024

// of returns the label for a name, or ok false if there are too many.
func (ls taskLabels) of(name string, at int) (l taskLabel, ok bool) {
	if l, ok = ls[name]; ok || len(ls) >= maxLabels {
		return l, ok
	}
	l.ctx = pprof.WithLabels(context.Background(), pprof.Labels("task", name))
	if at >= 0 {
		g := goid.Current()
		before := goid.Word(g, at)
		pprof.SetGoroutineLabels(l.ctx)
		l.word = goid.Word(g, at)
		goid.SetWord(g, at, before)
	}
	ls[name] = l
	return l, true
}

// begin labels the goroutine of a task that begins. The tasks of services are short and
// many, and are labelled only while a profile is recorded.
func (r *record) begin(t *Task) {
	run := t.nursery.scope.run
	if run.origins != nil || run.service && !r.labelAll {
		return
	}
	if l, ok := r.labels.of(t.labelName(), r.s.traits.labelsAt); ok {
		pprof.SetGoroutineLabels(l.ctx)
	}
}

// labelWaiting labels the goroutine of a task that waits, unless it has labels.
func (r *record) labelWaiting(t *Task) {
	at := r.s.traits.labelsAt
	if at < 0 || !t.waiting() || goid.Word(t.co.Goroutine(), at) != 0 {
		return
	}
	if l, ok := r.labels.of(t.Name(), at); ok {
		goid.SetWord(t.co.Goroutine(), at, l.word)
	}
}

// labelName is Name without the method of the task's values, which may make a new name for
// each task.
func (t *Task) labelName() string {
	if t.name != "" {
		return t.name
	}
	if f := t.function(); f != nil {
		return functionName(f)
	}
	return "task"
}

// LabelAll sets whether the tasks of services are labelled too.
func (s *sched) LabelAll(on bool) {
	if s.record != nil {
		s.record.labelAll = on
	}
}
