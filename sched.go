package spindle

import "github.com/spindleloop/spindle/loop"

// sched runs the tasks of one loop. Loop goroutine only.
type sched struct {
	l       *loop.Loop
	running *Task // whose code is executing
	due     *coro // taken out of its lane, to go on as soon as it is reached; nil for most of the time
	depth   int   // coroutines that stand above each other
	pool    []*coro
	spare   []*Task // that have ended, for reuse
	started uint64  // tasks so far
	lanes   [3]freshLane
	runs    int // under way on the loop
}

// freshLane is the tasks of one lane that have not begun. For each there is an
// entry of the lane among the loop's ready callbacks, so that a task needs no
// entry of its own.
type freshLane struct {
	s     *sched
	tasks queue
}

// Resume begins the oldest.
func (lane *freshLane) Resume() { lane.s.resume(lane.s.begin(lane)) }

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
	s := &sched{l: l}
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

// eager has t begin now, and returns when it first waits. Nothing else may run
// meanwhile, as in any call that does not wait: it is as if the deepest coroutine
// began it.
func (s *sched) eager(t *Task) {
	owner, before := s.l.Owner(), s.running
	c := s.host(t)
	s.depth += deepest
	s.switchTo(c)
	c.next()
	s.switchBack(c, owner, before)
	s.depth -= deepest
}

// takeFresh gives a coroutine whose task has finished the next one to begin, if
// that is what the loop would do next.
//
// It is not inlined, nor is keep: what it needs would be on the stack of every
// coroutine that waits.
//
//go:noinline
func (s *sched) takeFresh() *Task {
	if s.depth > deepest {
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

// resume runs a coroutine until it gives up control. It is called by the loop.
func (s *sched) resume(c *coro) {
	owner := s.l.Owner()
	s.switchTo(c)
	c.next()
	s.switchBack(c, owner, nil)
}

// switchTo goes before the switch to a coroutine. One that has not begun does not
// know itself, and makes itself the owner.
func (s *sched) switchTo(c *coro) {
	s.running = c.task
	if c.task != nil {
		c.task.state = running
	}
	if c.g != 0 {
		s.l.SetOwner(c.g)
	}
	c.hosting = true
	s.depth++
}

// switchBack follows it, in the goroutine owner, in which t runs.
func (s *sched) switchBack(c *coro, owner uintptr, t *Task) {
	s.depth--
	c.hosting = false
	s.l.SetOwner(owner)
	s.running = t
	if c.dead {
		go c.next()
	}
}

// claim takes the coroutine out of its lane that the loop would resume next; nil
// if there is none, or if only the loop can resume it.
func (s *sched) claim() *coro {
	if s.depth > deepest {
		return nil
	}
	next := s.l.NextCoroutine()
	if c, ok := next.(*coro); ok {
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
func (s *sched) leave() {
	if s.runs--; s.runs == 0 {
		s.dismiss()
	}
}

// LoopClosing is called when the loop is closed, perhaps with runs on it that nobody
// has ended.
func (s *sched) LoopClosing() {
	if len(s.pool) > 0 {
		aside(s.dismiss)
	}
}

// dismiss ends the coroutines in the pool.
func (s *sched) dismiss() {
	for _, c := range s.pool {
		c.task = nil
		s.resume(c)
	}
	s.pool, s.spare = nil, nil
}
