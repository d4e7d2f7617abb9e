package spindle

import (
	"context"
	"errors"
	"runtime"
	"runtime/pprof"
	"unsafe"

	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/probe"
)

// record is what an inspector wants to know of tasks besides their present state. A loop
// has one while an inspector is attached. Loop goroutine only.
type record struct {
	s       *sched
	origins map[*Task][6]uintptr // where tasks were started
	ended   [probe.KeepEnded]endedTask
	next    int // in ended

	labels   taskLabels
	labelAll bool // also the tasks of services

	pins bool  // walks keep what they visit
	last []any // what the last walk has visited
	kept []any // what the walk before it has visited
}

// endedTask is an ended task. Its texts are made when they are asked for.
type endedTask struct {
	probe.EndedTask
	err error
}

// Attach turns accounting on or off.
func (s *sched) Attach(on bool) {
	s.core.SetMeter(on)
	switch {
	case !on:
		s.record = nil
	case s.record == nil:
		s.record = &record{s: s, origins: make(map[*Task][6]uintptr), labels: make(taskLabels)}
	}
}

// Pin makes walks keep the objects that they visit until the walk after the next one begins.
func (s *sched) Pin() { s.record.pins = true }

// pin keeps what t refers to.
func (r *record) pin(t *Task, lot *node, wait probe.Object) {
	r.last = append(r.last, t.nursery, t.scope, lot)
	if w, ok := wait.(interface{ Object() probe.Object }); ok {
		r.last = append(r.last, w.Object())
	}
}

// started notes where t is started. The tasks of services are started by this module, at
// one place.
func (r *record) started(t *Task) {
	run := t.nursery.scope.run
	if run.service || run.origins != nil {
		return
	}
	var callers [6]uintptr
	runtime.Callers(4, callers[:])
	r.origins[t] = callers
}

// finished notes that t ends with err.
func (r *record) finished(t *Task, err error) {
	delete(r.origins, t)
	at := &r.ended[r.next%len(r.ended)]
	r.next++
	now := r.s.l.Time() // the task may have begun in this turn
	*at = endedTask{EndedTask: probe.EndedTask{ID: t.id, Name: t.name, Code: t.codeOf(), At: now}, err: err}
	if t.nursery.owner != nil {
		at.Parent = t.nursery.owner.id
	}
	if from, ok := t.nursery.scope.run.origins[t]; ok {
		at.Code = from.code
	}
	if t.mustExit {
		at.Outcome = "exit"
	}
	if t.co != nil {
		at.Known = t.co.Account(now, &at.Account)
	}
}

// Ended returns the tasks that have ended last.
func (s *sched) Ended() (all []probe.EndedTask) {
	r := s.record
	if r == nil {
		return nil
	}
	all = make([]probe.EndedTask, 0, min(r.next, len(r.ended)))
	for i := max(r.next-len(r.ended), 0); i < r.next; i++ {
		e := r.ended[i%len(r.ended)]
		e.describe()
		all = append(all, e.EndedTask)
	}
	return all
}

// maxErrorText is the number of bytes of an error that an inspector shows.
const maxErrorText = 512

// describe sets the outcome.
func (e *endedTask) describe() {
	var panicked *PanicError
	var canceled *Canceled
	switch {
	case e.Outcome != "":
	case e.err == nil:
		e.Outcome = "ok"
	case errors.As(e.err, &panicked):
		e.Outcome = "panic"
	case errors.As(e.err, &canceled):
		e.Outcome = "cancelled"
	default:
		e.Outcome = "error"
	}
	if e.err != nil {
		e.Error = e.err.Error()
		e.Error = e.Error[:min(len(e.Error), maxErrorText)]
	}
}

// InScope reports whether a task is in the scope with an id.
func (s *sched) InScope(p *probe.Task, id uintptr) bool {
	return p.Ref.(*Task).scope.around(id) != nil
}

// identify returns a number for an object of this package.
func identify[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

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
		coro.OnGoroutine(func() { // of its own: the labels of this one would be kept by a word alone
			pprof.SetGoroutineLabels(l.ctx)
			l.word = goid.Word(goid.Current(), at)
		})
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
