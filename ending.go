package spindle

import (
	"time"
)

// How a run ends: see the package documentation, and design 027.

// defaultGrace is Options.Grace if it is not set.
const defaultGrace = 5 * time.Second

// cancelled is called when the run's outermost scope was cancelled. A task that has not
// ended when its time is up is made to exit.
func (r *run) cancelled() {
	r.cancelledAt = r.l.Time()
	r.checkExits(saturatingAdd(r.cancelledAt, r.o.Grace))
}

// checkExits makes late tasks exit at a time on the loop's clock, or before.
func (r *run) checkExits(at time.Duration) {
	if r.exits.Cancel() && r.exitsAt <= at {
		at = r.exitsAt
	}
	r.exitsAt, r.exits = at, r.l.CallAt(at, r.exitLate)
}

// exitLate makes tasks exit when their time is up, and waits for the others.
func (r *run) exitLate() {
	now, next := r.l.Time(), time.Duration(noDeadline)
	tasks := r.tasks()
	ends := r.mustEnd(tasks)
	for _, t := range tasks {
		if at := ends[t]; at > now {
			next = min(next, at)
		} else {
			r.forceExit(t)
		}
	}
	if next != noDeadline {
		r.checkExits(next)
	}
}

// mustEnd returns when each task must have ended. The owner of a nursery has as much time
// as the tasks that it waits for.
func (r *run) mustEnd(tasks []*Task) map[*Task]time.Duration {
	ends := make(map[*Task]time.Duration, len(tasks))
	for _, t := range tasks {
		end := t.mustEnd()
		for ; t != nil; t = t.nursery.owner {
			ends[t] = max(ends[t], end)
		}
	}
	return ends
}

// mustEnd returns when the task must have ended: Options.Grace after the run was cancelled,
// after the task has left its last shield, or after the deadline of the shields that it is
// in, whichever is last. A shield without a deadline asks for no time. A helper task that has
// the values of a context has the time of that context's scope as well.
func (t *Task) mustEnd() time.Duration {
	r := t.nursery.scope.run
	last := r.cancelledAt
	if t.extra != nil && t.extra.waits != nil {
		last = max(last, t.extra.waits.leftShield)
	}
	last = max(last, t.scope.asksUntil())
	if t.uncounted && t.own != nil {
		last = max(last, scopeOf(t.own.values).asksUntil())
	}
	return saturatingAdd(last, r.o.Grace)
}

// asksUntil returns the last deadline of the shields around code in the scope, 0 if there is
// none.
func (sc *Scope) asksUntil() (last time.Duration) {
	for ; sc != nil; sc = sc.parent {
		if when := sc.deadline.Load(); sc.shielded.Load() && when != noDeadline {
			last = max(last, time.Duration(when))
		}
	}
	return last
}

// leaveShield records that the task has left a shielded scope. In a cancelled run its time
// to clean up begins now.
func (t *Task) leaveShield() {
	r := t.nursery.scope.run
	if r.root.scope.canceled == nil {
		return
	}
	now := r.l.Time()
	t.waits().leftShield = now
	r.checkExits(saturatingAdd(now, r.o.Grace))
}

// forceExit makes the task exit at its next wait.
func (r *run) forceExit(t *Task) {
	if !t.mustExit {
		r.stragglers = append(r.stragglers, t.Name())
	}
	t.mustExit = true
	t.nursery.liftLimit()
	t.cancelWait(r.root.scope.canceled)
}

// forceExits makes all remaining tasks exit, whatever time they have left.
func (r *run) forceExits() {
	for _, t := range r.tasks() {
		r.forceExit(t)
	}
}
