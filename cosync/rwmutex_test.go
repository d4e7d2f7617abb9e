package cosync_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
)

func TestRWMutexServesInOrder(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		var m cosync.RWMutex
		if err := m.RLock(ctx); err != nil {
			return err
		}
		if !m.TryRLock() || m.TryLock() {
			t.Error("readers do not share, or a writer joins them")
		}
		m.RUnlock()
		var order []string
		lockAndYield := func(name string, lock func(context.Context) error, unlock func()) {
			n.Go(func(ctx context.Context) error {
				if err := lock(ctx); err != nil {
					return err
				}
				order = append(order, name)
				err := spindle.Yield(ctx)
				order = append(order, "/"+name)
				unlock()
				return err
			})
		}
		lockAndYield("w1", m.Lock, m.Unlock)
		lockAndYield("r1", m.RLock, m.RUnlock)
		lockAndYield("r2", m.RLock, m.RUnlock)
		lockAndYield("w2", m.Lock, m.Unlock)
		lockAndYield("r3", m.RLock, m.RUnlock)
		if err := settle(ctx); err != nil {
			return err
		}
		if m.TryRLock() {
			t.Error("TryRLock overtakes a waiting writer")
		}
		m.RUnlock()
		if err := settle(ctx); err != nil {
			return err
		}
		want := []string{"w1", "/w1", "r1", "r2", "/r1", "/r2", "w2", "/w2", "r3", "/r3"}
		if !slices.Equal(order, want) {
			t.Errorf("the order was %v; want %v", order, want)
		}
		mustPanic(t, "cosync: Unlock of an RWMutex that is not locked", m.Unlock)
		mustPanic(t, "cosync: RUnlock of an RWMutex that is not read-locked", m.RUnlock)
		return nil
	})
}

func TestRWMutexCancelledWriterLetsReadersPass(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		var m cosync.RWMutex
		if err := m.RLock(ctx); err != nil {
			return err
		}
		n.Go(func(ctx context.Context) error {
			expired, err := spindle.MoveOnAfter(ctx, time.Second, m.Lock)
			if !expired {
				t.Error("the writer has the mutex")
			}
			return err
		})
		read := false
		n.Go(func(ctx context.Context) error {
			if err := m.RLock(ctx); err != nil {
				return err
			}
			read = true
			m.RUnlock()
			return nil
		})
		if err := spindle.Sleep(ctx, time.Minute); err != nil {
			return err
		}
		if !read {
			t.Error("a reader waits behind a writer that has given up")
		}
		m.RUnlock()
		return nil
	})
}

// TestRWMutexKeepsItsRule: random readers and writers, some of them cancelled.
func TestRWMutexKeepsItsRule(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		var m cosync.RWMutex
		random := rand.New(rand.NewPCG(1, 2))
		readers, writers, served := 0, 0, 0
		hold := func(ctx context.Context, count *int, unlock func()) error {
			defer unlock()
			*count++
			defer func() { *count-- }()
			if writers > 1 || writers > 0 && readers > 0 {
				t.Errorf("%d writers and %d readers hold it", writers, readers)
			}
			served++
			return spindle.Sleep(ctx, time.Duration(random.IntN(5))*time.Millisecond)
		}
		for range 500 {
			n.Go(func(ctx context.Context) error {
				if err := spindle.Sleep(ctx, time.Duration(random.IntN(1000))*time.Millisecond); err != nil {
					return err
				}
				_, err := spindle.MoveOnAfter(ctx, time.Duration(random.IntN(50))*time.Millisecond, func(ctx context.Context) error {
					if random.IntN(3) == 0 {
						if err := m.Lock(ctx); err != nil {
							return err
						}
						return hold(ctx, &writers, m.Unlock)
					}
					if err := m.RLock(ctx); err != nil {
						return err
					}
					return hold(ctx, &readers, m.RUnlock)
				})
				return err
			})
		}
		if err := spindle.Sleep(ctx, time.Hour); err != nil {
			return err
		}
		if s := m.Statistics(); s != (cosync.Statistics{Capacity: math.MaxInt}) || served < 250 {
			t.Errorf("%d served, and at the end %+v", served, s)
		}
		return nil
	})
}
