package cosync_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/sim"
)

// TestNilArgumentsAreNamed where they are passed, not where they are used.
func TestNilArgumentsAreNamed(t *testing.T) {
	mustPanic(t, "cosync: NewPriorityQueue with a nil less", func() { cosync.NewPriorityQueue[int](1, nil) })
	mustPanic(t, "cosync: Recv from a nil Receiver or into nil", func() { cosync.Recv(nil, new(int)) })
	mustPanic(t, "cosync: Send to a nil Sender", func() { cosync.Send[int](nil, 1) })
	mustPanic(t, "cosync: Done of a nil Awaitable", func() { cosync.Done(nil) })
}

// TestZeroObjectsAreNamed: without their constructors these objects would wait for ever.
func TestZeroObjectsAreNamed(t *testing.T) {
	simulate(t, func(ctx context.Context, _ *spindle.Nursery) error {
		mustPanic(t, "cosync: Semaphore not made by NewSemaphore", func() { new(cosync.Semaphore).Acquire(ctx) })
		mustPanic(t, "cosync: Barrier not made by NewBarrier", func() { new(cosync.Barrier).Wait(ctx) })
		mustPanic(t, "cosync: Inbox not made by NewInbox", func() { new(cosync.Inbox[int]).Put(ctx, 1) })
		mustPanic(t, "cosync: Inbox not made by NewInbox", func() { new(cosync.Inbox[int]).Get(ctx) })
		return nil
	})
}

// TestRefusedGoroutinesChangeNothing: a goroutine that is refused has neither bound the
// object to a loop nor written to it. The race detector checks the latter.
func TestRefusedGoroutinesChangeNothing(t *testing.T) {
	l := cosync.NewLimiter(1)
	sim.Test(t, func(ctx context.Context) error {
		uses := []func(){func() { l.Acquire(ctx) }, func() { l.TryAcquireFor("a") }, func() { l.AcquireFor(ctx, "a") }, l.Release, func() { l.SetTotal(2) }}
		var all sync.WaitGroup
		for _, use := range uses {
			all.Go(func() {
				if panicOf(use) == nil {
					t.Error("a goroutine could use a limiter")
				}
			})
		}
		all.Wait()
		return nil
	})
	sim.Test(t, func(ctx context.Context) error { return errors.Join(l.Acquire(ctx), ctx.Err()) }) // another loop
}

func TestLimiterNeedsABorrower(t *testing.T) {
	simulate(t, func(ctx context.Context, _ *spindle.Nursery) error {
		l := cosync.NewLimiter(1)
		mustPanic(t, "cosync: Acquire of a Limiter for a nil borrower", func() { l.AcquireFor(ctx, nil) })
		called := spindle.NewFuture[any](ctx)
		spindle.LoopOf(ctx).CallSoon(func() { called.Resolve(panicOf(func() { l.TryAcquireFor(spindle.Current(ctx)) })) })
		got, err := called.Await(ctx)
		if want := "cosync: Acquire of a Limiter for a nil borrower"; got != want {
			t.Errorf("in a callback: panic %v, want %q", got, want)
		}
		return err
	})
}
