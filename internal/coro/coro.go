package coro

import (
	"context"
	"iter"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/loop"
)

// Body is a task as its coroutine sees it.
type Body interface {
	// Run runs the task on coroutine c until the task has ended. It recovers
	// panics. A Goexit passes through it, and ends the coroutine.
	Run(c *Coro)

	// Name names the task in messages.
	Name() string
	// Bind makes the wait that begins end also with ctx, which may be one that is not
	// the task's. If something has to be undone after the wait, Bind calls AfterWait.
	Bind(ctx context.Context)
	// NewWaker returns the Waker of the task's next wait with ctx. It fails if ctx has ended.
	NewWaker(ctx context.Context) (Waker, error)
}

// Aborter undoes what was arranged for a wait, when the wait is cancelled. It reports
// false if the wait is about to end otherwise.
type Aborter = interface{ Abort() bool }

// State is the state of a coroutine.
type State uint8

// The states; the package comment has a diagram.
const (
	Idle    State = iota // without a task: in the pool, or ended
	Ready                // in a lane of the loop
	Running              // executing, or in a nested start
	Waiting              // until its Waker is used
)

// Coro is a coroutine. It runs one task after the other. Between two tasks it is in the
// scheduler's pool. Loop goroutine only.
type Coro struct {
	// The present or next wait.
	what      string
	since     time.Duration
	aborter   Aborter
	outcome   error  // the result of the wait
	afterWait func() // called when the wait has ended; nil for most
	seq       uint32 // the number of the wait, so that a late Wake finds it gone
	tasks     uint32 // begun on the coroutine so far

	state  State
	lane   loop.Priority
	budget int8 // immediate completions left until the task lets others run
	bind   bool // the next wait calls Body.Bind

	s    *Scheduler
	body Body            // nil without a task
	ctx  context.Context // of the task
	free context.Context // ctx while a wait in it may begin without a check for cancellation; otherwise nil
	g    uintptr
	lock *uintptr // zero if the goroutine is not locked to its thread, and was not when it was made
	at   *pull    // where it is suspended
	own  pull     // the one that was made for it

	account *account // nil unless an inspector is attached
}

func (s *Scheduler) newCoro() *Coro {
	c := &Coro{s: s}
	c.own.lock = s.threads.now
	c.own.next, _ = iter.Pull(c.main)
	c.at = &c.own
	return c
}

// Resume continues the coroutine, and returns when only the loop can continue. It is called
// by the loop.
func (c *Coro) Resume() {
	s := c.s
	s.identifyDriver()
	if s.threads.now|c.own.lock != 0 || *s.driver.lock != 0 {
		s.match(c)
	}
	s.pass(&s.driver, c)()
	if s.exited != nil {
		s.regain(&s.driver)
	}
}

// RunNested continues a coroutine, and returns when it waits or has ended. No other
// coroutine runs meanwhile, as in any call that does not wait.
func (s *Scheduler) RunNested(c *Coro) {
	from, outer := &s.driver, s.base
	if s.running != nil {
		from = s.running
	} else {
		s.identifyDriver()
	}
	s.base = from
	s.nested++
	s.pass(from, c)()
	if s.exited != nil {
		s.regain(from)
	}
	s.loop.Internal().SetOwner(from.g) // 0 if the loop does not run
	s.nested--
	s.base = outer
}

// Body returns the task of the coroutine, nil if it has none.
func (c *Coro) Body() Body { return c.body }

// State returns the coroutine's state.
func (c *Coro) State() State { return c.state }

// Lane returns the lane of the loop in which the coroutine is resumed.
func (c *Coro) Lane() loop.Priority { return c.lane }

// Goroutine identifies the coroutine's goroutine, as goid.Current does.
func (c *Coro) Goroutine() uintptr { return c.g }

// Wait describes the present wait: what it is for, since when, and its Aborter.
func (c *Coro) Wait() (what string, since time.Duration, ab Aborter) {
	return c.what, c.since, c.aborter
}

// main runs the coroutine's tasks. When it returns, control goes to the goroutine that
// is suspended in the coroutine's own pull.
func (c *Coro) main(yield func(struct{}) bool) {
	c.own.yield = c.s.switchOf(yield)
	c.g = goid.Current()
	c.lock = c.lockWord()
	c.s.loop.Internal().SetOwner(c.g)
	returned := false
	defer func() {
		c.s.exited, c.s.running = c, nil
		c.s.loop.Internal().SetOwner(c.s.driver.g) // until takeOver: the runtime may give c.g to a new goroutine at once
		c.at = nil                                 // an ended coroutine keeps no other one alive
		c.forget()
		if !returned {
			c.stepAside()
		}
	}()
	for c.s.ending != c {
		c.body.Run(c)
		if c.s.startNext(c) {
			continue
		}
		if !c.s.keep(c) {
			break
		}
		for c.body == nil && c.s.ending != c {
			if sw := c.s.switchAway(c); sw != nil {
				sw()
			}
			if c.s.exited != nil {
				c.s.takeOver(c)
			}
		}
	}
	returned = true
}

// forget makes the coroutine idle. It may stay in the pool for long, and a Waker may refer to
// it for longer, so nothing of its last task is kept.
func (c *Coro) forget() {
	c.body, c.ctx, c.free = nil, nil, nil
	c.what, c.aborter, c.outcome, c.afterWait = "", nil, nil, nil
	c.state = Idle
}

// stepAside moves the goroutine that is suspended in the coroutine's own pull elsewhere,
// before a Goexit ends the coroutine. That goroutine may have come there by next, and
// would have to exit too. A new coroutine takes its place: it continues the goroutine,
// and exits in place of it. The exiting coroutine is suspended in the pull of the new one
// until takeOver lets it end.
func (c *Coro) stepAside() {
	if c.s.portable {
		c.s.exiting = &c.own
		c.own.yield() // finishExit continues it
		return
	}
	other := &pull{}
	other.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		other.yield = directSwitch(yield)
		c.own.swap()()
	})
	c.s.exiting = other
	other.swap()()
}

// leave begins the wait seq. The caller makes the switch that it returns, and then calls
// back.
//
// It is not inlined, so that its callers can be: design 009.
//
//go:noinline
func (c *Coro) leave(seq uint32, ctx context.Context, what string, ab Aborter) (Switch, error) {
	if c == nil || c != c.s.running || seq != c.seq+1 || ab == nil {
		panic(wrongWaker)
	}
	c.CheckThread() // it may have been locked after NewWaker
	c.seq = seq
	c.what, c.since, c.aborter = what, c.s.loop.Internal().TurnTime(), ab
	c.state = Waiting
	c.budget = c.s.loop.Internal().FreeWaits()
	if c.bind {
		c.bind = false
		c.body.Bind(ctx)
	}
	return c.back()
}

// back returns the next switch on the way to the task's turn. When the turn has come,
// it returns no switch, and the result of the wait.
//
// If the loop would next resume or start another task, the switch goes directly there,
// and not back to the loop. The order is the same, with one switch instead of two.
//
// It is not inlined, so that its callers can be: design 009.
//
//go:noinline
func (c *Coro) back() (Switch, error) {
	if c == nil {
		panic(wrongWaker)
	}
	s := c.s
	if c != s.running {
		if s.exited == nil {
			panic(wrongWaker)
		}
		s.takeOver(c)
	}
	if c.state != Running {
		if sw := s.switchAway(c); sw != nil {
			return sw, nil
		}
	}
	if after := c.afterWait; after != nil {
		c.afterWait = nil
		after()
	}
	err := c.outcome
	c.outcome = nil
	return nil, err
}

// AfterWait calls fn on the coroutine when its present wait has ended, before the wait
// returns. If there is such a function already, fn is called after it.
func (c *Coro) AfterWait(fn func()) {
	if first := c.afterWait; first != nil {
		last := fn
		fn = func() { first(); last() }
	}
	c.afterWait = fn
}

// Context returns the context of the task.
func (c *Coro) Context() context.Context { return c.ctx }

// SetContext sets the context of the task. If check is set, the task's next wait must not
// begin without a check for cancellation.
func (c *Coro) SetContext(ctx context.Context, check bool) {
	c.ctx = ctx
	c.SetCheck(check)
}

// NeedsCheck reports whether the task's next wait must begin with a check for
// cancellation.
func (c *Coro) NeedsCheck() bool { return c.free == nil }

// SetCheck sets the result of NeedsCheck.
func (c *Coro) SetCheck(check bool) {
	c.free = c.ctx
	if check {
		c.free = nil
	}
}

// FreeContext returns the context of the task if a wait in it may begin without a check
// for cancellation, otherwise nil. So a call that need not wait makes one comparison.
func (c *Coro) FreeContext() context.Context { return c.free }

// BindNext makes the next wait call Body.Bind: its context may be one that is not the
// task's.
func (c *Coro) BindNext() { c.bind = true }

// Waker returns the Waker of the coroutine's present wait.
func (c *Coro) Waker() Waker { return Waker{c, c.seq} }

// NextWaker returns the Waker of the coroutine's next wait.
func (c *Coro) NextWaker() Waker { return Waker{c, c.seq + 1} }

// NewWaker is NextWaker for a wait with ctx. It fails if ctx has ended. The coroutine runs.
func (c *Coro) NewWaker(ctx context.Context) (Waker, error) { return c.body.NewWaker(ctx) }

// End ends the wait of the coroutine, which must wait, with err.
func (c *Coro) End(err error) {
	c.outcome, c.aborter = err, nil
	c.state = Ready
	if m := c.s.meter; m != nil {
		m.wake(c.s, c)
	}
	c.s.loop.Internal().ResumeSoon(c.lane, c)
}

// Abort ends the coroutine's wait with err if it has one that can still be undone. It
// reports whether it did.
func (c *Coro) Abort(err error) bool {
	if c.state != Waiting || !c.aborter.Abort() {
		return false
	}
	c.End(err)
	return true
}

// Yield lets everything that is ready run. The coroutine must be the running one.
func (c *Coro) Yield() {
	c.state = Ready
	c.s.loop.Internal().ResumeSoon(c.lane, c)
	for sw, _ := c.back(); sw != nil; sw, _ = c.back() {
		sw()
	}
	c.budget = c.s.loop.Internal().FreeWaits() // of now: the loop may have learnt that waits are far apart
}

// TakeBudget counts a wait that completes at once. It reports false, and counts nothing,
// if the task must let others run first.
func (c *Coro) TakeBudget() bool {
	left := c.budget - 1
	if left <= 0 {
		return false
	}
	c.budget = left
	return true
}
