package spindle

import (
	"context"
	"iter"
	"runtime"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/loop"
)

// coro is a coroutine. It runs one task after the other; between two of them it
// lies in the scheduler's pool.
type coro struct {
	wait
	s    *sched
	task *Task // nil in the pool
	g    uintptr
	lock *uintptr // zero if the goroutine is not locked to its thread, and was not when it was made
	rare *rare    // nil for most
	at   *seat    // where it sits while it does not run
	seat seat     // the one that was made for it
}

// rare is what few coroutines need.
type rare struct {
	unbind      func() // lets go of a context that is not the task's scope and could end its wait
	awaits      *Task  // whose result its task waits for
	read, write func() // what ends waits for readiness
	wake        func() // what ends waits for a timer
}

func (c *coro) seldom() *rare {
	if c.rare == nil {
		c.rare = &rare{}
	}
	return c.rare
}

// alarm is a callback that wakes the task, made once.
func (c *coro) alarm() func() {
	r := c.seldom()
	if r.wake == nil {
		r.wake = func() { c.task.wake(nil) }
	}
	return r.wake
}

func (s *sched) newCoro() *coro {
	c := &coro{s: s}
	c.seat.lock = s.threads.now
	c.seat.next, _ = iter.Pull(c.main)
	c.at = &c.seat
	return c
}

// Resume is called by the loop.
func (c *coro) Resume() { c.s.resume(c) }

// main is the coroutine's life. Its end gives control to who sits in its own seat,
// whoever that is.
func (c *coro) main(yield func(struct{}) bool) {
	c.seat.yield = c.s.switchOf(yield)
	c.g = goid.Current()
	c.lock = c.lockWord()
	c.s.l.SetOwner(c.g)
	returned := false
	defer func() {
		c.s.left, c.s.running = c, nil
		c.at, c.task = nil, nil // or who ends would keep alive who ends after it
		if !returned {
			c.relieve()
		}
	}()
	for c.s.ending != c {
		c.run()
		c.s.recycle(c.task)
		if c.task = c.s.takeFresh(); c.task != nil {
			c.task.co = c
			c.s.running = c.task
			continue
		}
		if !c.s.keep(c) {
			break
		}
		for c.task == nil && c.s.ending != c {
			if sw := c.s.away(c); sw != nil {
				sw()
			}
			if c.s.left != nil {
				c.s.inherit(c)
			}
		}
	}
	returned = true
}

// relieve has somebody else sit in the coroutine's own seat before a Goexit ends it:
// who has come there by next would have to exit too. The relief has nothing to do but
// to end, as it likes; to who is relieved it leaves its own seat, to be taken by yield,
// from where the coroutine goes on to its end.
func (c *coro) relieve() {
	if c.s.portable {
		c.s.relief = &c.seat
		c.seat.yield() // base finishes it: finishExit
		return
	}
	relief := &seat{}
	relief.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		relief.yield = directSwitch(yield)
		c.seat.take()()
	})
	c.s.relief = relief
	relief.take()()
}

// run runs the task to its end.
func (c *coro) run() {
	t := c.task
	t.state = running
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		c.freeThread()
		switch {
		case v == nil && t.doomed:
			t.finish(nil) // it is reported as a straggler
			return
		case v == nil:
			v = loop.ErrGoexit
		}
		t.finish(caught(v))
	}()
	if tr := &c.s.traits; !tr.fit(c.g, t.scope.run) {
		tr.reset(t)
	}
	err := t.fn(t.scope)
	c.mustLeaveThread()
	returned = true
	t.finish(err)
}

// vanish ends the running task from within: its deferred calls run.
func (t *Task) vanish() { runtime.Goexit() }

// leave begins the wait seq, which ends when somebody wakes the task, or when ctx, or
// the scope the task is in, is cancelled and ab agrees. The caller makes the switch
// that it returns, and back follows.
//
// It is not inlined, so that who calls it can be: design 009.
//
//go:noinline
func (c *coro) leave(seq uint32, ctx context.Context, what string, ab Aborter) (Switch, error) {
	if c == nil || c.task == nil || c.task != c.s.running || seq != c.seq+1 || ab == nil {
		panic(strayWaker)
	}
	c.mustLeaveThread() // it may have been locked after NewWaker
	t := c.task
	c.seq = seq
	c.what, c.since, c.aborter = what, c.s.l.TurnTime(), ab
	t.state = waiting
	t.budget = eachBudget
	if ctx != context.Context(t.scope) {
		t.bind(ctx)
	}
	return c.back()
}

// back is the next switch on the way to the task's turn. When that has come, there is
// none, and the error is what the wait has brought.
//
// If the next thing the loop would do is to resume another task, or to begin one,
// that is done from here, without going back to the loop: the order is the same, and
// it takes one switch instead of two.
//
// It is not inlined, so that who calls it can be: design 009.
//
//go:noinline
func (c *coro) back() (Switch, error) {
	if c == nil {
		panic(strayWaker)
	}
	t, s := c.task, c.s
	if t == nil || t != s.running {
		if s.left == nil {
			panic(strayWaker)
		}
		s.inherit(c)
	}
	if t.state != running {
		if sw := s.away(c); sw != nil {
			return sw, nil
		}
	}
	if r := c.rare; r != nil && r.unbind != nil {
		r.unbind()
		r.unbind = nil
	}
	err := c.outcome
	c.outcome = nil
	return nil, err
}

// suspend is leave, and what follows. Park, which is inlined, is right above it: every
// return behind a switch is mispredicted, and costs as much as twenty instructions.
func (c *coro) suspend(seq uint32, ctx context.Context, what string, ab Aborter) error {
	sw, err := c.leave(seq, ctx, what, ab)
	for sw != nil {
		sw()
		sw, err = c.back()
	}
	return err
}

// settle says how the task's wait ends.
func (c *coro) settle(err error) {
	c.outcome, c.aborter = err, nil
	c.task.state = ready
}
