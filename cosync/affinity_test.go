package cosync_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/sim"
)

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
	// The first loop runs while the second does: objects of a loop that has ended can be
	// used anywhere.
	sim.Test(t, func(ctx context.Context) error {
		for _, u := range uses {
			u.use(ctx)
		}
		var done sync.WaitGroup
		done.Go(func() {
			sim.Test(t, func(ctx context.Context) error {
				for i, u := range uses {
					want := fmt.Sprintf("cosync: %s used from a goroutine or loop that it does not belong to", u.name)
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

// TestUnusedObjectsRefuseGoroutines: goroutines must not use an object before its first
// task either. What they did would race with that task.
func TestUnusedObjectsRefuseGoroutines(t *testing.T) {
	for _, u := range []struct {
		name string
		use  func()
	}{
		{"Mutex", func() { new(cosync.Mutex).TryLock() }},
		{"Mutex", func() { new(cosync.Mutex).Unlock() }},
		{"RWMutex", func() { new(cosync.RWMutex).TryLock() }},
		{"RWMutex", func() { new(cosync.RWMutex).Unlock() }},
		{"RWMutex", func() { new(cosync.RWMutex).TryRLock() }},
		{"RWMutex", func() { new(cosync.RWMutex).RUnlock() }},
		{"Event", func() { new(cosync.Event).Set() }},
		{"Event", func() { new(cosync.Event).Clear() }},
		{"Cond", func() { cosync.NewCond(nil).Notify(1) }},
		{"Cond", func() { cosync.NewCond(nil).NotifyAll() }},
		{"Semaphore", func() { cosync.NewSemaphore(1).TryAcquire() }},
		{"Semaphore", func() { cosync.NewSemaphore(1).Release() }},
		{"Limiter", func() { cosync.NewLimiter(1).TryAcquireFor("a") }},
		{"Limiter", func() { cosync.NewLimiter(1).ReleaseFor("a") }},
		{"Limiter", func() { cosync.NewLimiter(1).Release() }},
		{"Limiter", func() { cosync.NewLimiter(1).SetTotal(2) }},
		{"Queue", func() { cosync.NewQueue[int](1).TryPut(1) }},
		{"Queue", func() { cosync.NewQueue[int](1).TryGet() }},
		{"Queue", func() { cosync.NewQueue[int](1).Close() }},
		{"Channel", func() { tx, _ := cosync.NewChannel[int](1); tx.TrySend(1) }},
		{"Channel", func() { tx, _ := cosync.NewChannel[int](1); tx.Clone() }},
		{"Channel", func() { tx, _ := cosync.NewChannel[int](1); tx.Close() }},
		{"Channel", func() { _, rx := cosync.NewChannel[int](1); rx.TryReceive() }},
		{"Channel", func() { _, rx := cosync.NewChannel[int](1); rx.Clone() }},
		{"Channel", func() { _, rx := cosync.NewChannel[int](1); rx.Close() }},
	} {
		want := "cosync: " + u.name + " used from a goroutine that runs no loop; " +
			"it is for tasks and callbacks; for goroutines use an Inbox"
		if got := panicOf(u.use); got != want {
			t.Errorf("%s: panic %v, want %q", u.name, got, want)
		}
	}
}

// TestCallbacksBindObjects: an object belongs to the loop of the callback that used it
// first, and goroutines cannot even read it.
func TestCallbacksBindObjects(t *testing.T) {
	var e cosync.Event
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		called := make(chan struct{})
		spindle.LoopOf(ctx).CallSoon(func() { e.Clear(); close(called) })
		_, err := spindle.Blocking(ctx, func() (any, error) {
			<-called
			for _, use := range []func(){e.Set, e.Clear, func() { e.IsSet() }, func() { e.Statistics() }} {
				if panicOf(use) == nil {
					t.Error("a goroutine could use an event of a loop")
				}
			}
			return nil, nil
		})
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
