package coro

import (
	"context"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/loop"
)

// Scheduler runs the coroutines of one loop. Init prepares it. Loop goroutine only,
// except where a method says otherwise.
type Scheduler struct {
	loop    *loop.Loop
	running *Coro   // its task is executing; nil for a callback
	meter   *meter  // nil unless an inspector is attached
	driver  Coro    // the goroutine that runs the loop
	base    *Coro   // continues when no other coroutine may: the driver, or the caller of the innermost nested start
	nested  int     // nested starts under way
	exited  *Coro   // has ended into another goroutine, which has not noticed yet
	exiting *pull   // where exited is suspended until it can end; nil if it has ended
	ending  *Coro   // an idle coroutine that is to end; nil for most of the time
	idle    []*Coro // the pool: made under threads.now
	threads threads
	lanes   [lanes]freshLane

	// For portable switching; see portable.go.
	portable  bool
	next      *Coro  // base resumes it
	resumeAll Switch // resumes next, and the one after it, until there is none
}

// lanes is the number of the loop's lanes.
const lanes = 3

// freshLane is the tasks of one lane that have not begun. For each there is an entry of
// the freshLane among the loop's ready callbacks, so that a task needs no entry of its
// own.
type freshLane struct {
	s        *Scheduler
	priority loop.Priority
	bodies   queue
}

// Resume begins the oldest task. It is called by the loop.
func (lane *freshLane) Resume() {
	s := lane.s
	s.identifyDriver()
	if s.threads.now != 0 || *s.driver.lock != 0 {
		s.matchLane(lane)
	}
	s.begin(lane).Resume()
}

// maxIdle is the number of idle coroutines that are kept for reuse.
const maxIdle = 1024

// Init makes s the scheduler of l. It stays that for as long as the loop is open.
func (s *Scheduler) Init(l *loop.Loop) {
	s.loop = l
	s.portable = !switchesDirectly()
	s.resumeAll = s.resumeEach
	s.base = &s.driver
	s.threads.id(goid.ThreadLock{})
	for p := range s.lanes {
		s.lanes[p].s, s.lanes[p].priority = s, loop.Priority(p)
	}
	l.Internal().SetScheduler(s)
}

// Of returns the scheduler of a loop, nil if it has none.
func Of(l *loop.Loop) *Scheduler {
	s, _ := l.Internal().Scheduler().(*Scheduler)
	return s
}

// Here returns the context of the task that is calling. It returns nil if the caller is
// not a task of l. It is for methods without a parameter for a context, such as those of
// net.Conn. Any goroutine may call it.
func Here(l *loop.Loop) context.Context {
	if !l.Owns() {
		return nil
	}
	if s := Of(l); s != nil && s.running != nil {
		return s.running.ctx
	}
	return nil
}

// Key is the key for which the Value of a task's context is the Scheduler of its loop.
type Key struct{}

// Calling returns the coroutine of the calling task. It returns nil if the caller is not a task
// of the loop that ctx belongs to. Any goroutine may call it.
func Calling(ctx context.Context) *Coro {
	s, _ := ctx.Value(Key{}).(*Scheduler)
	if s == nil || !s.loop.Owns() {
		return nil
	}
	return s.running
}

// Running returns the coroutine of the task that is executing. It returns nil if that is
// a callback of the loop.
func (s *Scheduler) Running() *Coro { return s.running }

// Caller returns the coroutine of the calling task. It returns nil if the caller is a
// callback of the loop, or another goroutine while the loop runs.
func (s *Scheduler) Caller() *Coro {
	if s.loop.Internal().Foreign() {
		return nil
	}
	return s.running
}

// Start makes b begin in a coming turn, in the lane of p.
func (s *Scheduler) Start(p loop.Priority, b Body) {
	lane := &s.lanes[p]
	lane.bodies.push(b)
	s.loop.Internal().ResumeSoon(p, lane)
}

// begin gives the oldest fresh task of a lane a coroutine.
func (s *Scheduler) begin(lane *freshLane) *Coro { return s.Host(lane.priority, lane.bodies.pop()) }

// Host gives b a coroutine. The caller has called CheckBegin, and calls RunNested next.
func (s *Scheduler) Host(p loop.Priority, b Body) *Coro {
	c := s.coro()
	c.assign(p, b)
	return c
}

func (c *Coro) assign(p loop.Priority, b Body) {
	c.body, c.lane, c.budget = b, p, c.s.loop.Internal().FreeWaits()
	c.tasks++
	if c.account != nil {
		c.s.meter.begin(c.s, c)
	}
}

// startNext gives a coroutine at the end of its task the next fresh task, if the loop
// would start that next. Otherwise it reports false, and the coroutine has no task.
//
// It is not inlined, nor are keep, switchAway and takeOver: what they need would be on
// the stack of every coroutine that waits.
//
//go:noinline
func (s *Scheduler) startNext(c *Coro) bool {
	if s.nested == 0 {
		if lane, ok := s.loop.Internal().NextCoroutine().(*freshLane); ok {
			s.loop.Internal().TakeCoroutine()
			c.assign(lane.priority, lane.bodies.pop())
			return true // it is still the running one
		}
	}
	c.forget()
	return false
}

func (s *Scheduler) coro() *Coro {
	last := len(s.idle) - 1
	if last < 0 {
		return s.newCoro()
	}
	c := s.idle[last]
	s.idle = s.idle[:last]
	return c
}

// keep puts an idle coroutine into the pool. It reports false if the pool is full.
//
//go:noinline
func (s *Scheduler) keep(c *Coro) bool {
	if len(s.idle) >= maxIdle {
		return false
	}
	s.idle = append(s.idle, c)
	return true
}

// pass returns the switch by which from gives control to another.
func (s *Scheduler) pass(from, to *Coro) Switch {
	if s.meter != nil {
		s.meter.switched(s, to)
	}
	s.mark(to)
	return s.switchTo(from, to)
}

// mark makes to the running coroutine. A coroutine that has not begun does not know its
// goroutine yet, and sets the loop's owner itself.
func (s *Scheduler) mark(to *Coro) {
	running := to
	if to.body == nil {
		running = nil
	} else {
		to.state = Running
	}
	s.running = running
	if to.g != 0 {
		s.loop.Internal().SetOwner(to.g)
	}
}

// switchTo returns the switch from one coroutine to another.
func (s *Scheduler) switchTo(from, to *Coro) Switch {
	if s.portable {
		return s.portableSwitch(from, to)
	}
	from.at = to.at
	return to.at.swap()
}

// switchAway returns the switch from a coroutine that cannot continue to the one that is
// next. It returns nil if that is the same one.
//
//go:noinline
func (s *Scheduler) switchAway(c *Coro) Switch {
	due := s.takeNext()
	if due == nil {
		due = s.base
	}
	if due == c {
		s.running, c.state = c, Running
		return nil
	}
	if s.meter != nil {
		s.meter.switched(s, due)
	}
	// This is pass. The compiler inlines the two calls, but not pass.
	s.mark(due)
	return s.switchTo(c, due)
}

// takeOver makes c the running coroutine after another one has ended into it.
//
//go:noinline
func (s *Scheduler) takeOver(c *Coro) {
	if exiting := s.exiting; exiting != nil {
		s.exiting = nil
		if s.portable {
			s.finishExit(exiting)
		} else {
			exiting.swap()()
		}
	}
	s.exited, s.running = nil, nil
	if c.body != nil {
		s.running = c
	}
	s.loop.Internal().SetOwner(c.g)
}

// regain is takeOver for the driver or for the caller of a nested start, which continue
// only when they are base. If there is a newer base, regain passes control on to it.
func (s *Scheduler) regain(c *Coro) {
	for s.exited != nil {
		s.takeOver(c)
		if s.base != c {
			s.pass(c, s.base)()
		}
	}
}

// takeNext takes the coroutine that the loop would resume next out of its lane. It
// returns nil if there is none, or if only the loop can resume it.
func (s *Scheduler) takeNext() *Coro {
	if s.nested > 0 {
		return nil
	}
	next := s.loop.Internal().NextCoroutine()
	if c, ok := next.(*Coro); ok {
		if len(s.threads.locks) > 1 && c.own.lock != s.threads.now {
			return nil // Resume reports it
		}
		s.loop.Internal().TakeCoroutine()
		return c
	}
	// Making a coroutine takes more stack than waiting; the loop has a large one.
	if lane, ok := next.(*freshLane); ok && len(s.idle) > 0 {
		s.loop.Internal().TakeCoroutine()
		return s.begin(lane)
	}
	return nil
}
