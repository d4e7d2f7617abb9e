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

// handOver is an object that two tasks wait for. The function wait waits, give serves one
// task, and left returns how much is left over when both were served.
type handOver struct {
	name string
	make func(ctx context.Context) (wait func(ctx context.Context) error, give func(), left func() int)
}

var handOvers = []handOver{
	{"Mutex", func(ctx context.Context) (func(context.Context) error, func(), func() int) {
		var m cosync.Mutex
		m.TryLock()
		return m.Lock, m.Unlock, func() int {
			m.Unlock()
			return m.Statistics().Waiting
		}
	}},
	{"Cond", func(ctx context.Context) (func(context.Context) error, func(), func() int) {
		c := cosync.NewCond(nil)
		wait := func(ctx context.Context) error {
			if err := c.Lock(ctx); err != nil {
				return err
			}
			defer c.Unlock()
			return c.Wait(ctx)
		}
		give := func() {
			if c.TryLock() { // otherwise the cancelled task holds it, and returns with it
				defer c.Unlock()
			}
			c.Notify(1)
		}
		return wait, give, func() int { return c.Statistics().Waiting }
	}},
	{"Semaphore", func(ctx context.Context) (func(context.Context) error, func(), func() int) {
		s := cosync.NewSemaphore(2)
		s.TryAcquire()
		s.TryAcquire()
		return s.Acquire, s.Release, func() int { return s.Statistics().Used - 2 }
	}},
	{"Limiter", func(ctx context.Context) (func(context.Context) error, func(), func() int) {
		l := cosync.NewLimiter(0)
		total := 0
		give := func() { total++; l.SetTotal(total) }
		wait := func(ctx context.Context) error { return l.AcquireFor(ctx, new(int)) }
		return wait, give, func() int { return l.Statistics().Used - 2 }
	}},
	{"Queue.Get", func(ctx context.Context) (func(context.Context) error, func(), func() int) {
		q := cosync.NewQueue[int](2)
		wait := func(ctx context.Context) error {
			_, err := q.Get(ctx)
			return err
		}
		return wait, func() { q.TryPut(1) }, func() int { return q.Statistics().Used }
	}},
	{"Queue.Put", func(ctx context.Context) (func(context.Context) error, func(), func() int) {
		q := cosync.NewQueue[int](1)
		q.TryPut(1)
		wait := func(ctx context.Context) error { return q.Put(ctx, 1) }
		return wait, func() { q.TryGet() }, func() int { return q.Statistics().Used - 1 }
	}},
	{"Channel.Receive", func(ctx context.Context) (func(context.Context) error, func(), func() int) {
		tx, rx := cosync.NewChannel[int](0)
		wait := func(ctx context.Context) error {
			_, err := rx.Receive(ctx)
			return err
		}
		return wait, func() { tx.TrySend(1) }, func() int { return rx.Statistics().Used }
	}},
	{"Channel.Send", func(ctx context.Context) (func(context.Context) error, func(), func() int) {
		tx, rx := cosync.NewChannel[int](0)
		wait := func(ctx context.Context) error { return tx.Send(ctx, 1) }
		return wait, func() { rx.TryReceive() }, func() int { return rx.Statistics().Putting }
	}},
	{"Select", func(ctx context.Context) (func(context.Context) error, func(), func() int) {
		tx, rx := cosync.NewChannel[int](0)
		_, never := cosync.NewChannel[int](0)
		wait := func(ctx context.Context) error {
			var v int
			_, err := cosync.Select(ctx, cosync.Recv(never, &v), cosync.Recv(rx, &v), cosync.After(time.Hour))
			return err
		}
		left := func() int { return rx.Statistics().Waiting + never.Statistics().Waiting }
		return wait, func() { tx.TrySend(1) }, left
	}},
	{"Inbox.Get", func(ctx context.Context) (func(context.Context) error, func(), func() int) {
		i := cosync.NewInbox[int](2)
		wait := func(ctx context.Context) error {
			_, err := i.Get(ctx)
			return err
		}
		return wait, func() { i.TryPut(1) }, func() int { return i.Statistics().Used }
	}},
	{"Inbox.Put", func(ctx context.Context) (func(context.Context) error, func(), func() int) {
		i := cosync.NewInbox[int](1)
		i.TryPut(1)
		wait := func(ctx context.Context) error { return i.Put(ctx, 1) }
		return wait, func() { i.TryGet() }, func() int { return i.Statistics().Used - 1 }
	}},
}

// TestCancelAsItIsServed: two tasks wait. The test serves one and cancels the first in the
// same turn, in both orders. A task that was served first keeps what it was given.
// Otherwise the next task gets it.
func TestCancelAsItIsServed(t *testing.T) {
	for _, h := range handOvers {
		for _, cancelFirst := range []bool{false, true} {
			name := h.name + "/served, then cancelled"
			if cancelFirst {
				name = h.name + "/cancelled, then served"
			}
			t.Run(name, func(t *testing.T) {
				simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
					wait, give, left := h.make(ctx)
					var scope *spindle.Scope
					var served []string
					waiter := func(name string) {
						n.Go(func(ctx context.Context) error {
							return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
								if name == "first" {
									scope = s
								}
								err := wait(ctx)
								if err == nil {
									served = append(served, name)
								} else if !errors.Is(err, context.Canceled) {
									t.Errorf("%s: %v", name, err)
								}
								return err
							})
						})
					}
					waiter("first")
					if err := settle(ctx); err != nil {
						return err
					}
					waiter("second")
					if err := settle(ctx); err != nil {
						return err
					}
					if cancelFirst {
						scope.Cancel(nil)
						give()
					} else {
						give()
						scope.Cancel(nil)
					}
					if err := settle(ctx); err != nil {
						return err
					}
					want := "first"
					if cancelFirst {
						want = "second"
						waiter("third")
						if err := settle(ctx); err != nil {
							return err
						}
					}
					if len(served) != 1 || served[0] != want {
						t.Fatalf("served %v, want %s", served, want)
					}
					give()
					if err := settle(ctx); err != nil {
						return err
					}
					if len(served) != 2 || left() != 0 {
						t.Errorf("served %v, %d left over", served, left())
					}
					return nil
				})
			})
		}
	}
}

// TestServedInOrder: several tasks wait, and are served one by one.
func TestServedInOrder(t *testing.T) {
	const many = 5
	for _, h := range handOvers {
		if h.name == "Semaphore" || h.name == "Mutex" {
			continue // a task must return what it was given: see their own tests
		}
		t.Run(h.name, func(t *testing.T) {
			simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
				wait, give, _ := h.make(ctx)
				var served []int
				for i := range many {
					n.Go(func(ctx context.Context) error {
						err := wait(ctx)
						served = append(served, i)
						return err
					})
				}
				if err := settle(ctx); err != nil {
					return err
				}
				for i := range many {
					give()
					if err := settle(ctx); err != nil {
						return err
					}
					if len(served) != i+1 || served[i] != i {
						t.Errorf("served %v", served)
					}
				}
				return nil
			})
		})
	}
}

// TestCancelAsAllAreServed: an Event, and the last task at a Barrier, serve all waiting
// tasks. A task that is cancelled in the same turn counts as served if that came first.
// Otherwise a Barrier waits for one more.
func TestCancelAsAllAreServed(t *testing.T) {
	for _, object := range []struct {
		name  string
		waits func() (wait func(context.Context) error, serve func(*spindle.Nursery))
		again bool // a task that left must be replaced
	}{
		{"Event", func() (func(context.Context) error, func(*spindle.Nursery)) {
			var e cosync.Event
			return e.Wait, func(*spindle.Nursery) { e.Set() }
		}, false},
		{"Barrier", func() (func(context.Context) error, func(*spindle.Nursery)) {
			b := cosync.NewBarrier(3)
			wait := func(ctx context.Context) error {
				_, err := b.Wait(ctx)
				return err
			}
			return wait, func(n *spindle.Nursery) { n.GoWith(spindle.TaskOptions{Eager: true}, wait) }
		}, true},
	} {
		for _, cancelFirst := range []bool{false, true} {
			name := object.name + ", served first"
			if cancelFirst {
				name = object.name + ", cancelled first"
			}
			t.Run(name, func(t *testing.T) {
				var served, left []string
				simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
					wait, serve := object.waits()
					var scope *spindle.Scope
					for _, name := range []string{"first", "second"} {
						n.Go(func(ctx context.Context) error {
							return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
								if name == "first" {
									scope = s
								}
								err := wait(ctx)
								if err == nil {
									served = append(served, name)
								} else if errors.Is(err, context.Canceled) {
									left = append(left, name)
								}
								return err
							})
						})
					}
					if err := settle(ctx); err != nil {
						return err
					}
					if cancelFirst {
						scope.Cancel(nil)
						serve(n)
						if object.again {
							serve(n)
						}
					} else {
						serve(n)
						scope.Cancel(nil)
					}
					return settle(ctx)
				})
				want := []string{"first", "second"}
				if cancelFirst {
					want = want[1:]
				}
				if !slices.Equal(served, want) || len(served)+len(left) != 2 {
					t.Errorf("served %q, left %q", served, left)
				}
			})
		}
	}
}
