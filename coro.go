package spindle

import (
	"iter"
	"runtime"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/loop"
)

// coro is a coroutine. It runs one task after the other; between two of them it
// lies in the scheduler's pool.
type coro struct {
	loop.Coroutine
	s    *sched
	task *Task // nil in the pool, and for one that is to end
	g    uintptr

	next    func() (struct{}, bool)
	yield   func(struct{}) bool
	wake    func() // wakes its task: a callback that needs no closure each time
	read    func() // the same, and ends a wait for readability
	write   func()
	hosting bool // resumed and not yet back: others may stand above it
	exited  bool // by Goexit
}

func (s *sched) newCoro() *coro {
	c := &coro{s: s}
	c.Data = c
	c.Resume = func() { s.resume(c) }
	c.wake = func() { c.task.wake(nil) }
	c.read = func() { s.l.RemoveReader(int(c.task.fd)); c.task.wake(nil) }
	c.write = func() { s.l.RemoveWriter(int(c.task.fd)); c.task.wake(nil) }
	c.next, _ = iter.Pull(c.main)
	return c
}

// main is the coroutine's life. What a Goexit needs is in its last deferred
// call: it switches back as if the task had waited, and a goroutine of no
// importance finishes the exit; otherwise it would take along whoever resumed.
func (c *coro) main(yield func(struct{}) bool) {
	c.yield = yield
	c.g = goid.Current()
	c.s.l.SetOwner(c.g)
	c.exited = true
	defer func() {
		if c.exited {
			yield(struct{}{})
		}
	}()
	for c.task != nil {
		c.run()
		if c.task = c.s.takeFresh(); c.task != nil {
			c.task.co = c
			c.s.running = c.task
			continue
		}
		if !c.s.keep(c) {
			break
		}
		yield(struct{}{})
	}
	c.exited = false
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
		switch {
		case v == nil && t.doomed:
			t.finish(nil) // it is reported as a straggler
			return
		case v == nil:
			v = loop.ErrGoexit
		}
		t.finish(caught(v))
	}()
	err := t.fn(t.scope)
	returned = true
	t.finish(err)
}

// vanish ends the running task from within: its deferred calls run.
func (t *Task) vanish() { runtime.Goexit() }

// deepest is how many coroutines may stand above each other. Two are enough for
// tasks that take turns; more would only make each task's stack larger.
const deepest = 4

// suspend gives up control until the task is resumed. If the next thing the
// loop would do is to resume another task, that is done from here, without
// going back to the loop: the order is the same, and it takes one switch
// instead of two.
func (t *Task) suspend() {
	s, c := t.s, t.co
	for {
		next := s.l.NextCoroutine()
		if next == &c.Coroutine {
			s.l.TakeCoroutine()
			t.state = running
			return
		}
		var other *coro
		if next != nil {
			other, _ = next.Data.(*coro)
		}
		if other == nil || other.hosting || s.depth >= deepest {
			c.yield(struct{}{})
			return
		}
		s.l.TakeCoroutine()
		s.resume(other)
	}
}
