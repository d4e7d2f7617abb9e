package spindle

import (
	"slices"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/loop"
)

// sched runs the tasks of one loop. Loop goroutine only.
type sched struct {
	l       *loop.Loop
	running *Task   // whose code is executing
	driver  coro    // stands for whoever runs the loop
	base    *coro   // who goes on when no other may: the driver, or who visits
	visits  int     // under way, each begun within the one before
	left    *coro   // ends, and has given control to somebody; nil once that has been noticed
	relief  *seat   // where left waits to end, if it has not; else nil
	ending  *coro   // in the pool, and to end; nil for most of the time
	pool    []*coro // made under threads.now
	threads threads
	spare   []*Task // that have ended, for reuse
	started uint64  // tasks so far
	lanes   [3]freshLane
	runs    []*run // under way on the loop
	traits  traits

	// Where coroutines cannot switch to one another directly; see portable.go.
	portable  bool
	next      *coro  // is to be resumed by base
	resumeAll Switch // resumes next, and the one after it, until there is none
}

// freshLane is the tasks of one lane that have not begun. For each there is an
// entry of the lane among the loop's ready callbacks, so that a task needs no
// entry of its own.
type freshLane struct {
	s     *sched
	tasks queue
}

// Resume begins the oldest.
func (lane *freshLane) Resume() {
	s := lane.s
	s.identifyDriver()
	if s.threads.now != 0 || *s.driver.lock != 0 {
		s.matchLane(lane)
	}
	s.drive(s.begin(lane))
}

// keepCoros is how many finished coroutines are kept for reuse, and keepTasks how
// many tasks, which are small.
const (
	keepCoros = 1024
	keepTasks = 4096
)

type schedKey struct{}

// schedOf is the scheduler of a loop. It is there for as long as the loop: runs
// that share a loop share its scheduler.
func schedOf(l *loop.Loop) *sched {
	if s, ok := l.Local(schedKey{}).(*sched); ok {
		return s
	}
	s := &sched{l: l, portable: !switchesDirectly()}
	s.resumeAll = s.resumeEach
	s.traits = newTraits()
	s.base = &s.driver
	s.threads.id(goid.ThreadLock{})
	l.SetLocal(schedKey{}, s)
	for i := range s.lanes {
		s.lanes[i].s = s
	}
	return s
}

// only panics unless the caller may use what belongs to the loop.
func (s *sched) only(op string) {
	if s.l.Foreign() {
		refuse(op)
	}
}

// refuse panics: a goroutine that is not the loop's has called op.
func refuse(op string) {
	panic("spindle: " + op + " called from a goroutine that is not the loop's; use FromGoroutine")
}

// task is a new task, or one that was used before.
func (s *sched) task() *Task {
	last := len(s.spare) - 1
	if last < 0 {
		return &Task{}
	}
	t := s.spare[last]
	s.spare = s.spare[:last]
	return t
}

// recycle takes back a task that has ended, unless somebody may keep it.
//
//go:noinline
func (s *sched) recycle(t *Task) {
	if t.known || len(s.spare) >= keepTasks {
		return
	}
	*t = Task{}
	s.spare = append(s.spare, t)
}

// spawn has t begin in a coming turn.
func (s *sched) spawn(t *Task) {
	lane := &s.lanes[t.lane]
	lane.tasks.push(t)
	s.l.ResumeSoon(t.lane, lane)
}

// begin gives the oldest fresh task of a lane a coroutine of its own.
func (s *sched) begin(lane *freshLane) *coro { return s.host(lane.tasks.pop()) }

// host gives t a coroutine of its own.
func (s *sched) host(t *Task) *coro {
	c := s.coro()
	c.task = t
	t.co = c
	return c
}

// eager has t begin now, and returns when it first waits.
func (s *sched) eager(t *Task) { s.visit(s.host(t)) }

// takeFresh gives a coroutine whose task has finished the next one to begin, if
// that is what the loop would do next.
//
// It is not inlined, nor are keep, away and inherit: what they need would be on the
// stack of every coroutine that waits.
//
//go:noinline
func (s *sched) takeFresh() *Task {
	if s.visits > 0 {
		return nil
	}
	lane, ok := s.l.NextCoroutine().(*freshLane)
	if !ok {
		return nil
	}
	s.l.TakeCoroutine()
	return lane.tasks.pop()
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
//
//go:noinline
func (s *sched) keep(c *coro) bool {
	if len(s.pool) >= keepCoros {
		return false
	}
	s.pool = append(s.pool, c)
	return true
}

// resume makes a coroutine go on. It returns when only the loop can go on. It is called
// by the loop.
func (s *sched) resume(c *coro) {
	s.identifyDriver()
	if s.threads.now|c.seat.lock != 0 || *s.driver.lock != 0 {
		s.match(c)
	}
	s.drive(c)
}

func (s *sched) drive(c *coro) {
	s.pass(&s.driver, c)()
	if s.left != nil {
		s.regain(&s.driver)
	}
}

// visit has a coroutine go on, and returns when it waits or has ended. Nothing else may
// run meanwhile, as in any call that does not wait.
func (s *sched) visit(c *coro) {
	from, outer := &s.driver, s.base
	if s.running != nil {
		from = s.running.co
	} else {
		s.identifyDriver()
	}
	s.base = from
	s.visits++
	s.pass(from, c)()
	if s.left != nil {
		s.regain(from)
	}
	s.l.SetOwner(from.g) // nobody, if the loop does not run
	s.visits--
	s.base = outer
}

// pass returns the switch by which from gives control to another.
func (s *sched) pass(from, to *coro) Switch {
	s.mark(to)
	return s.switchTo(from, to)
}

// mark makes to the running coroutine. One that has not begun does not know its
// goroutine, and makes that the owner itself.
func (s *sched) mark(to *coro) {
	s.running = to.task
	if to.task != nil {
		to.task.state = running
	}
	if to.g != 0 {
		s.l.SetOwner(to.g)
	}
}

// switchTo returns the switch from one coroutine to another.
func (s *sched) switchTo(from, to *coro) Switch {
	if s.portable {
		return s.handOver(from, to)
	}
	from.at = to.at
	return to.at.take()
}

// away is the switch from a coroutine that cannot go on to who does instead; nil if
// that is itself.
//
//go:noinline
func (s *sched) away(c *coro) Switch {
	due := s.claim()
	if due == nil {
		due = s.base
	}
	if due == c {
		s.running, c.task.state = c.task, running
		return nil
	}
	// This is pass. The compiler inlines the two, but not pass.
	s.mark(due)
	return s.switchTo(c, due)
}

// inherit makes c, to whom the end of another has given control, the one who has it.
//
//go:noinline
func (s *sched) inherit(c *coro) {
	if relief := s.relief; relief != nil {
		s.relief = nil
		if s.portable {
			s.finishExit(relief)
		} else {
			relief.take()()
		}
	}
	s.left, s.running = nil, c.task
	s.l.SetOwner(c.g)
}

// regain is inherit for one who waits for others to come back. It may not be its turn
// yet: others may have begun to wait for others since.
func (s *sched) regain(c *coro) {
	for s.left != nil {
		s.inherit(c)
		if s.base != c {
			s.pass(c, s.base)()
		}
	}
}

// claim takes the coroutine out of its lane that the loop would resume next; nil
// if there is none, or if only the loop can resume it.
func (s *sched) claim() *coro {
	if s.visits > 0 {
		return nil
	}
	next := s.l.NextCoroutine()
	if c, ok := next.(*coro); ok {
		if len(s.threads.locks) > 1 && c.seat.lock != s.threads.now {
			return nil // resume names it
		}
		s.l.TakeCoroutine()
		return c
	}
	// To make a coroutine takes more stack than to wait; the loop has a large one.
	if lane, ok := next.(*freshLane); ok && len(s.pool) > 0 {
		s.l.TakeCoroutine()
		return s.begin(lane)
	}
	return nil
}

// aside runs fn on a goroutine of its own, and waits for it.
func aside(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	<-done
}

// leave is the end of a run. With the last one the coroutines in the pool end: an
// abandoned one would never be collected.
func (s *sched) leave(r *run) {
	s.runs = slices.DeleteFunc(s.runs, func(o *run) bool { return o == r })
	if len(s.runs) == 0 {
		s.dismissAll()
	}
}

// dismissAll ends the coroutines of all pools that can be ended here. Those that were made
// under another thread lock than the caller's end elsewhere if they were made under none;
// otherwise they stay where they are.
func (s *sched) dismissAll() {
	s.use(goid.LockOf(goid.Current()))
	s.dismiss()
	if s.threads.now != 0 && len(s.threads.others[0].pool) > 0 {
		here := s.threads.locks[s.threads.now]
		aside(func() {
			s.use(goid.ThreadLock{})
			s.dismiss()
		})
		s.use(here)
	}
	s.spare = nil
}

// dismiss ends the coroutines of the pool.
func (s *sched) dismiss() {
	pool := s.pool
	s.pool = nil
	for _, c := range pool {
		s.ending = c
		s.visit(c)
	}
	s.ending = nil
}
