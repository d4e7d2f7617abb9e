package cosync_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/sim"
)

func TestQueueOrders(t *testing.T) {
	type job struct{ rank, seq int }
	for _, c := range []struct {
		name string
		q    *cosync.Queue[job]
		less func(a, b job) int
	}{
		{"first in, first out", cosync.NewQueue[job](math.MaxInt), func(a, b job) int { return a.seq - b.seq }},
		{"last in, first out", cosync.NewStack[job](math.MaxInt), func(a, b job) int { return b.seq - a.seq }},
		{"by rank", cosync.NewPriorityQueue(math.MaxInt, func(a, b job) bool { return a.rank < b.rank }), func(a, b job) int {
			if a.rank != b.rank {
				return a.rank - b.rank
			}
			return a.seq - b.seq
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim.Test(t, func(context.Context) error {
				r := rand.New(rand.NewPCG(1, 2))
				var model []job // in the order of Get
				for seq := range 5000 {
					if r.IntN(5) < 3 {
						j := job{r.IntN(20), seq}
						if err := c.q.TryPut(j); err != nil {
							t.Fatal(err)
						}
						at, _ := slices.BinarySearchFunc(model, j, c.less)
						model = slices.Insert(model, at, j)
						continue
					}
					got, err := c.q.TryGet()
					if len(model) == 0 {
						if err != cosync.ErrWouldBlock {
							t.Fatalf("from an empty queue: %v, %v", got, err)
						}
						continue
					}
					if err != nil || got != model[0] {
						t.Fatalf("got %v, %v, want %v", got, err, model[0])
					}
					model = model[1:]
				}
				if c.q.Statistics().Used != len(model) || len(model) < 100 {
					t.Errorf("%+v, %d in the model", c.q.Statistics(), len(model))
				}
				return nil
			})
		})
	}
	mustPanic(t, "cosync: NewQueue, NewStack or NewPriorityQueue with a capacity below 1", func() { cosync.NewQueue[int](0) })
}

func TestQueueIsBounded(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		q := cosync.NewQueue[int](2)
		n.Go(func(ctx context.Context) error {
			defer q.Close()
			for i := range 200 {
				if err := q.Put(ctx, i); err != nil {
					return err
				}
				if q.Statistics().Used > 2 {
					t.Errorf("%+v", q.Statistics())
				}
			}
			return nil
		})
		if err := settle(ctx); err != nil {
			return err
		}
		if want := (cosync.Statistics{Used: 2, Capacity: 2, Putting: 1}); q.Statistics() != want {
			t.Errorf("%+v", q.Statistics())
		}
		if err := q.TryPut(-1); err != cosync.ErrWouldBlock {
			t.Errorf("into a full queue: %v", err)
		}
		next := 0
		for v, err := range q.All(ctx) {
			if err != nil {
				return err
			}
			if v != next {
				t.Errorf("%d instead of %d", v, next)
			}
			next++
		}
		if next != 200 {
			t.Errorf("ended at %d", next)
		}
		return nil
	})
}

// TestQueueCloseWithWaiters closes a queue while tasks wait in Put, and one while tasks
// wait in Get.
func TestQueueCloseWithWaiters(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		full, empty := cosync.NewQueue[int](1), cosync.NewQueue[int](1)
		full.TryPut(1)
		ended := 0
		for range 3 {
			n.Go(func(ctx context.Context) error {
				if err := full.Put(ctx, 2); err != cosync.ErrClosed {
					t.Errorf("a putter got %v", err)
				}
				ended++
				return nil
			})
			n.Go(func(ctx context.Context) error {
				if _, err := empty.Get(ctx); err != cosync.ErrClosed {
					t.Errorf("a getter got %v", err)
				}
				ended++
				return nil
			})
		}
		if err := settle(ctx); err != nil {
			return err
		}
		for range 2 {
			full.Close()
			empty.Close()
		}
		if err := settle(ctx); err != nil {
			return err
		}
		if ended != 6 {
			t.Errorf("%d ended", ended)
		}
		if err := full.Put(ctx, 3); err != cosync.ErrClosed || full.TryPut(3) != cosync.ErrClosed {
			t.Errorf("put after close: %v", err)
		}
		if v, err := full.Get(ctx); v != 1 || err != nil {
			t.Errorf("the remaining value: %d, %v", v, err)
		}
		if _, err := full.Get(ctx); !errors.Is(err, cosync.ErrClosed) {
			t.Errorf("when the queue is empty: %v", err)
		}
		if _, err := full.TryGet(); err != cosync.ErrClosed {
			t.Errorf("when the queue is empty: %v", err)
		}
		return nil
	})
}
