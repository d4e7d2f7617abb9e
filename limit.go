package spindle

import (
	"context"
	"math"
	"slices"

	"github.com/spindleloop/spindle/loop"
)

// limit is how many tasks of a nursery may run at a time.
type limit struct {
	tasks   int
	running int        // tasks that have been given to the scheduler and have not ended
	held    []heldTask // tasks that begin when others have ended, in order
}

// remove removes a task from those that are held back. Mostly it is the first.
func (l *limit) remove(at int) heldTask {
	h := l.held[at]
	if at == 0 {
		l.held[0] = heldTask{} // not kept in memory
		l.held = l.held[1:]
	} else {
		l.held = slices.Delete(l.held, at, at+1)
	}
	return h
}

// heldTask is a task that the scheduler does not know yet.
type heldTask struct {
	t         *Task
	priority  loop.Priority
	cancelled func(error) // that of TaskOptions
}

// SetLimit limits how many tasks of the nursery run at a time. Further ones begin when
// others have ended, in the order in which they were started. A limit below 1 removes it.
//
// Go does not wait, unlike that of errgroup.Group: callbacks, which cannot wait, start
// tasks too. To hold back the code that starts tasks as well, use ForEach or Map. A task
// must not wait for another one of its nursery that may be held back.
//
// A task that waits for its turn is cancelled like any other that waits: its function is not
// called, and the task ends with the cancellation. The function that Run calls does not count
// in the RootNursery, like the function of WithNursery in its own. Tasks that packages of this
// module start in the nursery, for example for a connection of a web.Transport, do not count
// either.
func (n *Nursery) SetLimit(tasks int) {
	n.s.only("Nursery.SetLimit")
	if n.limit == nil {
		n.limit = &limit{}
		for _, t := range n.scope.run.tasks() {
			if t.nursery == n && !t.uncounted {
				n.limit.running++
			}
		}
	}
	if tasks < 1 {
		tasks = math.MaxInt
	}
	n.limit.tasks = tasks
	n.beginHeld()
}

// holds reports whether a task that is started now has to wait for others.
func (n *Nursery) holds() bool {
	return n.limit != nil && n.limit.running >= n.limit.tasks
}

// hold keeps a task until others have ended. It is called in a nursery that holds.
func (n *Nursery) hold(t *Task, o *TaskOptions) {
	n.limit.held = append(n.limit.held, heldTask{t, o.Priority, o.cancelled})
	if by := t.scope.canceledBy; by != nil {
		n.cancelHeld(t, by.canceled)
	}
}

// cancelHeld ends a task that is held back, if t is one. The task begins, so that it ends like
// any other, but without its function.
func (n *Nursery) cancelHeld(t *Task, why *Canceled) {
	if n.limit == nil {
		return
	}
	at := slices.IndexFunc(n.limit.held, func(h heldTask) bool { return h.t == t })
	if at < 0 {
		return
	}
	h := n.limit.remove(at)
	t.uncounted, t.code = true, t.codeOf()
	t.fn = func(context.Context) error {
		if h.cancelled != nil {
			h.cancelled(why)
			return nil
		}
		return why
	}
	n.s.core.Start(h.priority, (*body)(t))
}

// beginHeld begins as many tasks as may run.
func (n *Nursery) beginHeld() {
	for len(n.limit.held) > 0 && !n.holds() {
		next := n.limit.remove(0)
		n.limit.running++
		n.s.core.Start(next.priority, (*body)(next.t))
	}
}

// liftLimit begins all tasks that are held back: the run is being ended by force.
func (n *Nursery) liftLimit() {
	if n.limit != nil {
		n.SetLimit(0)
	}
}
