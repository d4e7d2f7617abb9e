// Package cosync has the tools by which tasks of one loop coordinate: locks,
// events, permits, queues and channels that a task can wait for.
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
// Between tasks, Channel is the first choice: it has an end, and its closing is
// part of it. Queue is for work that is ordered otherwise (last in first out, by
// priority), or has no single producer to end it. Select waits for several things
// at once. Event is one bit that many wait for; Barrier is a meeting; Cond is a
// condition that has no type of its own. Semaphore and Limiter bound how many do
// something at once; a Limiter knows who they are. An Inbox, and nothing
// else here, connects tasks with goroutines and with other loops.
//
// Mutex is needed less often than elsewhere. Tasks of one loop never run at the
// same time, and a task is left only in a call that takes a ctx, or that reads or
// writes a connection: between two such calls everything is atomic. A Mutex protects
// what has to hold across them.
//
// # What holds for all
//
// Who waited longest is served first, and newcomers do not overtake. A call that
// takes a ctx may switch to other tasks even if it could complete at once, and
// fails if ctx is cancelled; the others (TryLock, Unlock, Set, Close and so on)
// never switch.
//
// A wait that fails has taken nothing: no item, no permit, no place. What was
// given to a waiter before its cancellation stays given, and the wait succeeds;
// the cancellation is there for the next wait.
//
// An object belongs to the loop whose task or callback first used it. Use from another
// loop or from any other goroutine panics, also before that first use: what is to be in a
// queue at the beginning is put there by a task. An Inbox is for any goroutine.
package cosync

import (
	"context"
	"errors"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

var (
	// ErrClosed says that this side has closed what it now uses.
	ErrClosed = errors.New("cosync: closed")
	// ErrBroken says that the other side is gone: nobody will receive.
	ErrBroken = errors.New("cosync: nobody is left to receive")
	// ErrEnd says that all was received and nobody is left to send.
	ErrEnd = errors.New("cosync: end of channel")
	// ErrWouldBlock says that a call that does not wait would have to.
	ErrWouldBlock = errors.New("cosync: would block")
)

// home is the loop that an object belongs to: the first that used it.
type home struct{ l *loop.Loop }

// admit checks that a task that is about to wait is of the object's loop, or makes its
// loop the object's.
func (h *home) admit(w spindle.Waker, name string) {
	if w.Loop() != h.l {
		h.settle(w.Loop(), name)
	}
}

// enter checks that ctx is of the object's loop.
func (h *home) enter(ctx context.Context, name string) {
	if l := spindle.LoopOf(ctx); l != h.l {
		h.settle(l, name)
	}
}

func (h *home) settle(l *loop.Loop, name string) {
	if h.l != nil {
		panic(stranger(name))
	}
	h.l = l
}

// here checks that the caller is on the object's loop, or makes its loop the object's.
func (h *home) here(name string) {
	if h.l == nil {
		h.claim(name)
		return
	}
	if h.l.Foreign() {
		panic(stranger(name))
	}
}

// look checks that the caller may read the object: it is on its loop, or that does not run.
func (h *home) look(name string) {
	if h.l != nil && h.l.Foreign() {
		panic(stranger(name))
	}
}

// claim makes the caller's loop the object's.
//
//go:noinline
func (h *home) claim(name string) {
	if h.l = loop.Current(); h.l == nil {
		panic("cosync: " + name + " used from a goroutine that runs no loop; " +
			"it is for tasks and callbacks; for goroutines use an Inbox")
	}
}

func stranger(name string) string {
	return "cosync: " + name + " used from a goroutine or loop that it does not belong to"
}
