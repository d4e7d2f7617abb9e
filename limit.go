package spindle

import (
	"math"

	"github.com/spindleloop/spindle/loop"
)

// limit is how many tasks of a nursery may run at a time.
type limit struct {
	tasks   int
	running int        // tasks that have been given to the scheduler and have not ended
	held    []heldTask // tasks that begin when others have ended, in order
}

// heldTask is a task that the scheduler does not know yet.
type heldTask struct {
	t        *Task
	priority loop.Priority
}

// SetLimit limits how many tasks of the nursery run at a time. Further ones begin when
// others have ended, in the order in which they were started. A limit below 1 removes it.
//
// Go does not wait, unlike that of errgroup.Group: callbacks, which cannot wait, start
// tasks too. To hold back the code that starts tasks as well, use ForEach or Map. A task
// must not wait for another one of its nursery that may be held back.
func (n *Nursery) SetLimit(tasks int) {
	n.s.only("Nursery.SetLimit")
	if n.limit == nil {
		n.limit = &limit{}
		for _, t := range n.scope.run.tasks() {
			if t.nursery == n {
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

// beginHeld begins as many tasks as may run.
func (n *Nursery) beginHeld() {
	for len(n.limit.held) > 0 && !n.holds() {
		next := n.limit.held[0]
		n.limit.held = n.limit.held[1:]
		n.limit.running++
		n.s.start(next.t, next.priority, false)
	}
}

// liftLimit begins all tasks that are held back: the run is being ended by force.
func (n *Nursery) liftLimit() {
	if n.limit != nil {
		n.SetLimit(0)
	}
}
