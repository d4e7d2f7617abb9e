package spindle

import "github.com/spindleloop/spindle/internal/probe"

// An inspector cancels a task alone, with the tasks that it has started. The innermost
// scope of the task would not do: it may be that of the nursery to which the task belongs,
// or of a block after which the task goes on.

// Cancel cancels, for an inspector, the scope with an id if the task is in it, or the task
// if the id is 0. It returns the number of tasks that the cancellation reaches. It only
// counts them if cause is nil.
func (s *sched) Cancel(p *probe.Task, id uintptr, cause error) (tasks int) {
	t := p.Ref.(*Task)
	sc := t.outermost()
	if id != 0 {
		sc = t.scope.around(id)
	}
	switch {
	case sc != nil:
		tasks = sc.count()
	case id == 0:
		tasks = 1
	}
	if cause == nil || tasks == 0 {
		return tasks
	}
	if id == 0 {
		sc = t.isolate()
	}
	sc.Cancel(cause)
	return tasks
}

// around returns the scope with an id among sc and those around it, or nil.
func (sc *Scope) around(id uintptr) *Scope {
	for ; sc != nil; sc = sc.parent {
		if identify(sc) == id {
			return sc
		}
	}
	return nil
}

// count returns the number of tasks that a cancellation of the scope reaches.
func (sc *Scope) count() int {
	n := len(sc.tasks.all())
	for child := sc.first; child != nil; child = child.behind {
		if !child.shielded.Load() {
			n += child.count()
		}
	}
	return n
}

// outermost returns the outermost scope that has only t and the tasks that it has started.
// It returns nil if the task is directly in the scope of its nursery.
func (t *Task) outermost() (top *Scope) {
	if t.own != nil {
		return t.own
	}
	for sc := t.scope; sc != nil && sc != t.nursery.scope && sc.isOf(t); sc = sc.parent {
		top = sc
	}
	return top
}

// isOf reports whether all tasks in the scope are t and tasks that it has started.
func (sc *Scope) isOf(t *Task) bool {
	for _, in := range sc.tasks.all() {
		for in != nil && in != t {
			in = in.nursery.owner
		}
		if in == nil {
			return false
		}
	}
	for child := sc.first; child != nil; child = child.behind {
		if !child.isOf(t) {
			return false
		}
	}
	return true
}

// isolate returns a scope around everything that the task does. It makes one, around the
// scopes that the task has opened, if there is none. It returns the innermost scope if the
// task has opened it inside one of another task.
func (t *Task) isolate() *Scope {
	top, outer := t.outermost(), t.nursery.scope
	switch {
	case t.own != nil:
		return t.own
	case top != nil && top.parent != outer:
		return t.scope
	}
	t.own = outer.open(outer)
	if top == nil {
		t.enter(t.own)
		return t.own
	}
	top.unlink()
	top.parent, top.before, top.behind = t.own, nil, nil
	t.own.first, t.own.last = top, top
	return t.own
}
