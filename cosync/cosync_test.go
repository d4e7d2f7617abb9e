package cosync_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/sim"
)

func TestMain(m *testing.M) { leak.Main(m) }

// simulate runs a program in a nursery under virtual time; a task that is stuck
// fails it as a deadlock.
func simulate(t *testing.T, program func(ctx context.Context, n *spindle.Nursery) error) {
	t.Helper()
	sim.Test(t, func(ctx context.Context) error { return spindle.WithNursery(ctx, program) })
}

// settle lets every task run until it waits.
func settle(ctx context.Context) error {
	for range 10 {
		if err := spindle.Yield(ctx); err != nil {
			return err
		}
	}
	return nil
}

// panicOf is what fn panics with.
func panicOf(fn func()) (v any) {
	defer func() { v = recover() }()
	fn()
	return nil
}

func mustPanic(t *testing.T, want string, fn func()) {
	t.Helper()
	if got := panicOf(fn); got != want {
		t.Errorf("panic %v, want %q", got, want)
	}
}

// TestUseFromAnotherLoop uses each object on one loop and then on another, with a
// ctx and without.
func TestUseFromAnotherLoop(t *testing.T) {
	var m cosync.Mutex
	var e cosync.Event
	cond := cosync.NewCond(nil)
	s := cosync.NewSemaphore(2)
	l := cosync.NewLimiter(2)
	b := cosync.NewBarrier(1)
	q := cosync.NewQueue[int](9)
	tx, rx := cosync.NewChannel[int](9)
	uses := []struct {
		name string
		use  func(ctx context.Context)
	}{
		{"Mutex", func(ctx context.Context) { m.Lock(ctx) }},
		{"Mutex", func(context.Context) { m.Unlock() }},
		{"Mutex", func(context.Context) { m.TryLock() }},
		{"Event", func(ctx context.Context) { e.Set() }},
		{"Event", func(ctx context.Context) { e.Wait(ctx) }},
		{"Event", func(context.Context) { e.Clear() }},
		{"Mutex", func(ctx context.Context) { cond.Lock(ctx) }},
		{"Cond", func(context.Context) { cond.Notify(1) }},
		{"Cond", func(context.Context) { cond.NotifyAll() }},
		{"Semaphore", func(ctx context.Context) { s.Acquire(ctx) }},
		{"Semaphore", func(context.Context) { s.TryAcquire() }},
		{"Semaphore", func(context.Context) { s.Release() }},
		{"Limiter", func(ctx context.Context) { l.Acquire(ctx) }},
		{"Limiter", func(context.Context) { l.Release() }},
		{"Limiter", func(context.Context) { l.SetTotal(3) }},
		{"Barrier", func(ctx context.Context) { b.Wait(ctx) }},
		{"Queue", func(ctx context.Context) { q.Put(ctx, 1) }},
		{"Queue", func(ctx context.Context) { q.Get(ctx) }},
		{"Queue", func(context.Context) { q.TryPut(1) }},
		{"Queue", func(context.Context) { q.TryGet() }},
		{"Channel", func(ctx context.Context) { tx.Send(ctx, 1) }},
		{"Channel", func(ctx context.Context) { rx.Receive(ctx) }},
		{"Channel", func(context.Context) { tx.TrySend(1) }},
		{"Channel", func(context.Context) { rx.TryReceive() }},
		{"Channel", func(ctx context.Context) { cosync.Select(ctx, cosync.Send(tx, 1)) }},
		{"Channel", func(context.Context) { tx.Clone() }},
		{"Channel", func(context.Context) { rx.Close() }},
	}
	// The first loop goes on while the second runs: a loop that has ended
	// refuses nobody.
	sim.Test(t, func(ctx context.Context) error {
		for _, u := range uses {
			u.use(ctx)
		}
		var done sync.WaitGroup
		done.Go(func() {
			sim.Test(t, func(ctx context.Context) error {
				for i, u := range uses {
					want := fmt.Sprintf("cosync: %s used from a loop it does not belong to", u.name)
					if got := panicOf(func() { u.use(ctx) }); got != want {
						t.Errorf("use %d: panic %v, want %q", i, got, want)
					}
				}
				return nil
			})
		})
		done.Wait()
		return nil
	})
}
