// Package cosync has tools with which the tasks of one loop coordinate: locks, events,
// permits, queues and channels that a task can wait for.
//
//	tx, rx := cosync.NewChannel[string](16)
//	n.Go(func(ctx context.Context) error {
//		defer tx.Close()
//		return tx.Send(ctx, "hello")
//	})
//	for v, err := range rx.All(ctx) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(v)
//	}
//
// # Which to use
//
// Between tasks, use a channel first: it has an end, which its closing announces. Use a
// Queue for values in another order (last in first out, by priority), or if no single
// producer can end it. Select waits for several things at once. An Event is one bit that
// many tasks wait for. A Barrier makes a number of tasks wait for each other. A Cond is
// for any other condition. Semaphore and Limiter bound how many tasks do something at the
// same time; a Limiter also knows which ones. An Inbox, and nothing else here, connects
// tasks with goroutines and with other loops.
//
// A Mutex is needed less often than elsewhere. Tasks of one loop never run at the same
// time, and a task switch happens only in a call that takes a ctx, or that reads or writes
// a connection: everything between two such calls is atomic. A Mutex protects state that
// must not change across them.
//
// # What holds for all
//
// Waiters are served in the order in which they came, and newcomers do not overtake. A
// call that takes a ctx may switch to other tasks even if it could complete at once, and
// fails if ctx is cancelled. Other calls (TryLock, Unlock, Set, Close and so on) never
// switch.
//
// A wait that fails has taken nothing: no value, no permit, no lock. If a waiter is served
// before it is cancelled, its wait succeeds, and the next wait fails instead.
//
// An object belongs to the loop of the task or callback that used it first. Use from
// another loop or from any other goroutine panics, also before that first use: to fill a
// queue at the beginning, let a task do it. Statistics and IsSet can also be called while
// the loop does not run. An Inbox is for any goroutine.
package cosync

import (
	"context"
	"errors"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/loop"
)

var (
	// ErrClosed reports use of an object that the caller's side has closed.
	ErrClosed = errors.New("cosync: closed")
	// ErrBroken reports a Send although every receiver of the channel is closed.
	ErrBroken = errors.New("cosync: every receiver is closed")
	// ErrWouldBlock reports that a call that does not wait cannot complete now.
	ErrWouldBlock = errors.New("cosync: would block")
)

// affinity is the loop that an object belongs to: the loop that used it first.
type affinity struct {
	_ noCopy
	l *loop.Loop
}

// noCopy makes go vet report copies of an object after its first use.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// checkTask binds the object to the loop of a task that is about to wait. It panics if the
// object belongs to another loop.
func (a *affinity) checkTask(w spindle.Waker, name string) {
	if l := coro.Waker(w).Loop(); l != a.l {
		a.bind(l, name)
	}
}

// tryPass reports whether the caller is a task of s that may complete a call with ctx at
// once, and counts that as a wait. If it reports false, nothing has happened: the caller
// makes a Waker, which fails or panics with the reason.
//
// It is not inlined, and tests each condition separately: design 009.
//
//go:noinline
func tryPass(ctx context.Context, s *coro.Scheduler) bool {
	if s == nil {
		return false
	}
	scope, ok := ctx.(*spindle.Scope)
	if !ok {
		return false
	}
	c := s.Caller()
	if c == nil {
		return false
	}
	if c.FreeContext() != context.Context(scope) {
		return false
	}
	return c.TakeBudget()
}

// checkContext is checkTask for the task that ctx belongs to.
func (a *affinity) checkContext(ctx context.Context, name string) {
	if l := spindle.LoopOf(ctx); l != a.l {
		a.bind(l, name)
	}
}

func (a *affinity) bind(l *loop.Loop, name string) {
	if a.l != nil {
		panic(foreignUse(name))
	}
	a.l = l
}

// checkCaller binds the object to the loop that the caller runs on. It panics if the
// object belongs to another loop, or if the caller runs on none.
func (a *affinity) checkCaller(name string) {
	if a.l == nil {
		a.bindCaller(name)
		return
	}
	if a.l.Internal().Foreign() {
		panic(foreignUse(name))
	}
}

// checkReader panics unless the caller may read the object: it runs on the object's loop,
// or that loop does not run.
func (a *affinity) checkReader(name string) {
	if a.l != nil && a.l.Internal().Foreign() {
		panic(foreignUse(name))
	}
}

// bindCaller is the rare part of checkCaller.
//
//go:noinline
func (a *affinity) bindCaller(name string) {
	l := loop.Internal().Current()
	if l == nil { // a.l must not be written: a task may bind the object at the same time
		panic("cosync: " + name + " used from a goroutine that runs no loop; " +
			"it is for tasks and callbacks; for goroutines use an Inbox")
	}
	a.l = l
}

// foreignUse returns the panic message for an object that belongs to another loop.
func foreignUse(name string) string {
	return "cosync: " + name + " used from a goroutine or loop that it does not belong to"
}
