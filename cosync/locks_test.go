package cosync_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
)

func TestMutexSkipsCancelledWaiters(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		var m cosync.Mutex
		if err := m.Lock(ctx); err != nil {
			return err
		}
		if m.TryLock() {
			t.Error("locked twice")
		}
		var order []int
		for i := range 4 {
			n.Go(func(ctx context.Context) error {
				if i == 1 || i == 2 {
					expired, err := spindle.MoveOnAfter(ctx, time.Second, m.Lock)
					if !expired {
						t.Errorf("%d has the mutex", i)
					}
					return err
				}
				if err := m.Lock(ctx); err != nil {
					return err
				}
				order = append(order, i)
				m.Unlock()
				return nil
			})
		}
		if err := spindle.Sleep(ctx, time.Minute); err != nil {
			return err
		}
		if s := m.Statistics(); s.Used != 1 || s.Waiting != 2 {
			t.Errorf("%+v", s)
		}
		m.Unlock()
		if m.TryLock() {
			t.Error("TryLock took the mutex from the task that it was handed to")
		}
		if err := settle(ctx); err != nil {
			return err
		}
		if !slices.Equal(order, []int{0, 3}) || m.Statistics() != (cosync.Statistics{Capacity: 1}) {
			t.Errorf("order %v, %+v", order, m.Statistics())
		}
		mustPanic(t, "cosync: Unlock of a Mutex that is not locked", m.Unlock)
		return nil
	})
}

// TestUncontendedLockIsACheckpoint: cancellation and fairness do not depend on
// whether a call waits.
func TestUncontendedLockIsACheckpoint(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		var m cosync.Mutex
		others := 0
		n.Go(func(context.Context) error { others++; return nil })
		for range 1000 {
			if err := m.Lock(ctx); err != nil {
				return err
			}
			m.Unlock()
		}
		if others == 0 {
			t.Error("other tasks did not run during a thousand locks")
		}
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			s.Cancel(nil)
			err := m.Lock(ctx)
			if !errors.Is(err, context.Canceled) || m.Statistics().Used != 0 {
				t.Errorf("Lock when cancelled: %v", err)
			}
			return err
		})
	})
}

func TestEvent(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		var e cosync.Event
		woken := 0
		for range 3 {
			n.Go(func(ctx context.Context) error {
				err := e.Wait(ctx)
				woken++
				return err
			})
		}
		if err := settle(ctx); err != nil {
			return err
		}
		if e.IsSet() || e.Statistics().Waiting != 3 {
			t.Errorf("%+v", e.Statistics())
		}
		e.Set()
		e.Clear() // woken tasks continue
		if err := settle(ctx); err != nil {
			return err
		}
		if woken != 3 || e.Statistics() != (cosync.Statistics{}) {
			t.Errorf("%d woken, %+v", woken, e.Statistics())
		}
		e.Set()
		e.Set()
		return e.Wait(ctx)
	})
}

// TestCancelledCondWaitHoldsTheMutex cancels a task in Wait while another task holds the
// mutex, and a notified one while it waits for the mutex.
func TestCancelledCondWaitHoldsTheMutex(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		for _, notified := range []bool{false, true} {
			c := cosync.NewCond(nil)
			var scope *spindle.Scope
			returned := false
			n.Go(func(ctx context.Context) error {
				return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
					scope = s
					if err := c.Lock(ctx); err != nil {
						return err
					}
					defer c.Unlock() // panics if it is not locked
					err := c.Wait(ctx)
					returned = true
					if notified != (err == nil) {
						t.Errorf("notified %v: %v", notified, err)
					}
					return err
				})
			})
			if err := settle(ctx); err != nil {
				return err
			}
			if err := c.Lock(ctx); err != nil {
				return err
			}
			if notified {
				c.NotifyAll()
			}
			scope.Cancel(nil)
			if err := settle(ctx); err != nil {
				return err
			}
			if returned {
				t.Error("Wait returned although another holds the mutex")
			}
			c.Unlock()
			if err := settle(ctx); err != nil {
				return err
			}
			if !returned || c.Statistics() != (cosync.Statistics{}) {
				t.Errorf("returned %v, %+v", returned, c.Statistics())
			}
		}
		c := cosync.NewCond(nil)
		mustPanic(t, "cosync: Notify of a Cond: its Mutex is not locked", func() { c.Notify(1) })
		mustPanic(t, "cosync: Wait of a Cond: its Mutex is not locked", func() { c.Wait(ctx) })
		// A wait that is cancelled before it begins does not unlock the mutex.
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			if err := c.Lock(ctx); err != nil {
				return err
			}
			defer c.Unlock()
			s.Cancel(nil)
			return c.Wait(ctx)
		})
	})
}

func TestSemaphore(t *testing.T) {
	mustPanic(t, "cosync: NewSemaphore with a count below 1", func() { cosync.NewSemaphore(0) })
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		s := cosync.NewSemaphore(3)
		mustPanic(t, "cosync: Release of a Semaphore that has all its permits", s.Release)
		inside, most, order := 0, 0, []int(nil)
		for i := range 10 {
			n.Go(func(ctx context.Context) error {
				if err := s.Acquire(ctx); err != nil {
					return err
				}
				defer s.Release()
				order = append(order, i)
				inside++
				most = max(most, inside)
				err := spindle.Sleep(ctx, time.Second)
				inside--
				return err
			})
		}
		if err := spindle.Sleep(ctx, time.Minute); err != nil {
			return err
		}
		if most != 3 || !slices.IsSorted(order) || len(order) != 10 {
			t.Errorf("at most %d at once, order %v", most, order)
		}
		for range 3 {
			if !s.TryAcquire() {
				t.Error("a permit has leaked")
			}
		}
		if s.TryAcquire() || s.Statistics() != (cosync.Statistics{Capacity: 3, Used: 3}) {
			t.Errorf("%+v", s.Statistics())
		}
		return nil
	})
}

func TestLimiterKnowsItsBorrowers(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		l := cosync.NewLimiter(2)
		none := "cosync: Release of a Limiter by a borrower that has no token"
		mustPanic(t, none, l.Release)
		if err := l.Acquire(ctx); err != nil {
			return err
		}
		mustPanic(t, "cosync: Acquire of a Limiter by a borrower that has a token", func() { l.Acquire(ctx) })
		n.Go(func(ctx context.Context) error {
			mustPanic(t, none, l.Release) // another task has it
			if !l.TryAcquireFor(spindle.Current(ctx)) {
				t.Error("no second token")
			}
			if err := spindle.Sleep(ctx, time.Second); err != nil {
				return err
			}
			l.Release()
			return nil
		})
		if err := settle(ctx); err != nil {
			return err
		}
		if err := l.AcquireFor(ctx, "a user"); err != nil { // waits a second
			return err
		}
		if spindle.LoopOf(ctx).Time() != time.Second {
			t.Errorf("at %v", spindle.LoopOf(ctx).Time())
		}
		for range 2 { // a cancelled borrower may try again
			expired, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) error { return l.AcquireFor(ctx, "another") })
			if !expired || err != nil {
				t.Errorf("expired %v, %v", expired, err)
			}
		}
		n.Go(func(ctx context.Context) error { return l.AcquireFor(ctx, "another") })
		n.Go(func(ctx context.Context) error { return l.AcquireFor(ctx, "a third") })
		if err := settle(ctx); err != nil {
			return err
		}
		mustPanic(t, "cosync: Acquire of a Limiter by a borrower that waits for a token", func() { l.TryAcquireFor("another") })
		l.SetTotal(1) // no borrower loses its token
		l.Release()
		if got := l.Statistics(); got != (cosync.Statistics{Capacity: 1, Used: 1, Waiting: 2}) {
			t.Errorf("%+v", got)
		}
		l.SetTotal(3)
		if got := l.Statistics(); got != (cosync.Statistics{Capacity: 3, Used: 3}) {
			t.Errorf("%+v", got)
		}
		l.ReleaseFor("another")
		mustPanic(t, none, func() { l.ReleaseFor("another") })
		return nil
	})
}

func TestBarrier(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		b := cosync.NewBarrier(3)
		var came []int
		for i := range 3 {
			n.Go(func(ctx context.Context) error {
				for range 2 { // it can be used again at once
					if i == 1 {
						// It leaves, and comes back later.
						if left, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) error {
							_, err := b.Wait(ctx)
							return err
						}); !left {
							return err
						}
					}
					if err := spindle.Sleep(ctx, time.Duration(10-i)*time.Second); err != nil {
						return err
					}
					index, err := b.Wait(ctx)
					if err != nil {
						return err
					}
					came = append(came, i, index)
				}
				return nil
			})
		}
		if err := spindle.Sleep(ctx, time.Hour); err != nil {
			return err
		}
		// 2 comes after 8 s, 0 and 1 after 10 s.
		if want := []int{2, 0, 0, 1, 1, 2}; len(came) != 12 || !samePairs(came[:6], want) || !samePairs(came[6:], want) {
			t.Errorf("came %v", came)
		}
		if b.Statistics() != (cosync.Statistics{Capacity: 3}) {
			t.Errorf("%+v", b.Statistics())
		}
		return nil
	})
}

// samePairs reports whether two lists have the same pairs in any order.
func samePairs(a, b []int) bool {
	pairs := func(list []int) (m [8]int) {
		for i := 0; i+1 < len(list); i += 2 {
			m[list[i]] = list[i+1] + 1
		}
		return m
	}
	return pairs(a) == pairs(b)
}

// TestLimiterKnowsTasksNotCoroutines: a task that ends with a token is not mistaken for the
// next task on the same coroutine.
func TestLimiterKnowsTasksNotCoroutines(t *testing.T) {
	simulate(t, func(ctx context.Context, _ *spindle.Nursery) error {
		l := cosync.NewLimiter(2)
		for range 2 { // one after the other, on a coroutine that is used again
			if err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(l.Acquire)
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
}
