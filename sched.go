package spindle

import (
	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/loop"
)

// sched runs the tasks of one loop. Loop goroutine only.
type sched struct {
	l       *loop.Loop
	running *Task // whose code is executing
	depth   int   // coroutines that stand above each other
	pool    []*coro
	tasks   list // all that have not finished
	root    *Nursery

	// Tasks that have not begun, by lane. For each there is an entry of the
	// lane's starter among the loop's ready callbacks, so that a task needs no
	// callback of its own.
	fresh    [3]queue
	starters [3]loop.Coroutine
}

// keepCoros is how many finished coroutines are kept for reuse.
const keepCoros = 1024

func newSched(l *loop.Loop) *sched {
	s := &sched{l: l}
	for lane := range s.starters {
		s.starters[lane].Resume = func() { s.start(loop.Priority(lane)) }
	}
	return s
}

// only panics unless the caller may use what belongs to the loop.
func (s *sched) only(op string) {
	if s.l.Running() && !s.l.Owns() {
		panic("spindle: " + op + " called from a goroutine that is not the loop's; use FromGoroutine")
	}
}

// spawn has t begin in a coming turn.
func (s *sched) spawn(t *Task) {
	s.tasks.push(&t.inSched, t)
	s.fresh[t.lane].push(t)
	s.l.ResumeSoon(t.lane, &s.starters[t.lane])
}

// start begins the oldest fresh task of a lane on a coroutine of its own.
func (s *sched) start(lane loop.Priority) {
	c := s.coro()
	c.task = s.fresh[lane].pop()
	c.task.co = c
	s.resume(c)
}

// takeFresh gives a coroutine whose task has finished the next one to begin, if
// that is what the loop would do next.
func (s *sched) takeFresh() *Task {
	next := s.l.NextCoroutine()
	for lane := range s.starters {
		if next == &s.starters[lane] {
			s.l.TakeCoroutine()
			return s.fresh[lane].pop()
		}
	}
	return nil
}

func (s *sched) coro() *coro {
	last := len(s.pool) - 1
	if last < 0 {
		return s.newCoro()
	}
	c := s.pool[last]
	s.pool = s.pool[:last]
	return c
}

// keep puts a coroutine into the pool, if there is room.
func (s *sched) keep(c *coro) bool {
	if len(s.pool) >= keepCoros {
		return false
	}
	s.pool = append(s.pool, c)
	return true
}

// resume runs a coroutine until it gives up control.
func (s *sched) resume(c *coro) {
	before := s.running
	s.running = c.task
	if c.task != nil {
		c.task.state = running
	}
	g := c.g
	if g == 0 {
		g = goid.Current() // it does not know itself yet, and will say
	}
	owner := s.l.SetOwner(g)
	c.hosting = true
	s.depth++
	c.next()
	s.depth--
	c.hosting = false
	s.l.SetOwner(owner)
	s.running = before
	if c.exited && c.task != nil && c.task.state == finished {
		go c.next()
	}
}

// close ends the coroutines in the pool. An abandoned one would never be
// collected.
func (s *sched) close() {
	for _, c := range s.pool {
		c.task = nil
		s.resume(c)
	}
	s.pool = nil
}
