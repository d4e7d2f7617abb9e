package coro

import (
	"context"

	"github.com/spindleloop/spindle/loop"
)

// Waker is one wait of one coroutine. The tasks' spindle.Waker has it as its underlying
// type, so that the packages of this module convert one to the other.
type Waker struct {
	c   *Coro
	seq uint32
}

// Switch gives control to another coroutine or to the loop, and returns when control
// comes back. Its results mean nothing.
type Switch func() (struct{}, bool)

// wrongWaker is the panic of a wait that does not follow its NewWaker.
const wrongWaker = "spindle: a task waits with the Waker of another wait"

// Coro returns the coroutine, nil for the zero Waker.
func (w Waker) Coro() *Coro { return w.c }

// Scheduler returns the scheduler of the coroutine.
func (w Waker) Scheduler() *Scheduler { return w.c.s }

// Loop returns the loop of the coroutine.
func (w Waker) Loop() *loop.Loop { return w.c.s.loop }

// Leave and Back are Park in parts, for callers where a few nanoseconds count:
//
//	sw, err := w.Leave(ctx, "something", abort)
//	for sw != nil {
//		sw()
//		sw, err = w.Back()
//	}
//	return err
//
// The switch is then made in the calling function itself. The processor mispredicts
// every return after a switch, and this saves one. Between Leave and the end of the loop
// the caller must not do anything else. The ctx must be the one that NewWaker was given.
func (w Waker) Leave(ctx context.Context, what string, abort Aborter) (Switch, error) {
	return w.c.leave(w.seq, ctx, what, abort)
}

// Back returns the next switch, or nil and the result of the wait.
func (w Waker) Back() (Switch, error) { return w.c.back() }

// Pass takes the place of a wait that need not happen. After many in a row it lets
// others run.
func (w Waker) Pass() {
	if w.c.budget--; w.c.budget <= 0 {
		w.c.passControl()
	}
}

// passControl is Pass when the budget is used up.
func (c *Coro) passControl() {
	if c != c.s.running {
		panic(wrongWaker)
	}
	c.CheckThread()
	c.Yield()
}

// Waiting reports whether the wait is under way.
func (w Waker) Waiting() bool { return w.c.state == Waiting && w.c.seq == w.seq }

// Wake ends the wait with err. It reports false if the wait has not begun or has ended
// already.
//
// It is not inlined, so that its callers can be: design 009.
//
//go:noinline
func (w Waker) Wake(err error) bool {
	c := w.c
	if c == nil {
		return false
	}
	if c.s.loop.Internal().Foreign() {
		panic("spindle: Waker.Wake called from a goroutine that is not the loop's; use CallOn")
	}
	if c.state != Waiting || c.seq != w.seq {
		return false
	}
	c.outcome, c.aborter = err, nil
	c.state = Ready
	if m := c.s.meter; m != nil {
		m.wake(c.s, c)
	}
	c.s.loop.Internal().ResumeSoon(c.lane, c)
	return true
}

// Ref refers to a task without keeping it alive. The zero Ref refers to none. An Aborter
// with a method Holder() Ref names, in the task tree, the task that holds the lock that
// another one waits for. One with a method Readers() []Ref names the tasks that share it.
type Ref struct {
	c    *Coro
	task uint32 // Coro.tasks of it
}

// Ref returns a reference to the Waker's task, which must be running.
func (w Waker) Ref() Ref { return Ref{w.c, w.c.tasks} }

// Ref returns a reference to the task of c. It is zero if c is nil.
func (c *Coro) Ref() Ref {
	if c == nil {
		return Ref{}
	}
	return Ref{c, c.tasks}
}

// Body returns the task, or nil if it has ended.
func (r Ref) Body() Body {
	if r.c == nil || r.c.tasks != r.task {
		return nil
	}
	return r.c.body
}

// Name returns the name of the task, or "" if it has ended.
func (r Ref) Name() string {
	if r.c == nil || r.c.body == nil || r.c.tasks != r.task {
		return ""
	}
	return r.c.body.Name()
}
