package cosync_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/until"
)

// TestInboxFromManyGoroutines: no value is lost or duplicated, the capacity is kept, and
// the values of each goroutine come in order if one task gets them.
func TestInboxFromManyGoroutines(t *testing.T) {
	const goroutines, each = 8, 500
	for _, tasks := range []int{1, 3} {
		in := cosync.NewInbox[[2]int](4)
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				for i := range each {
					if err := in.Put(context.Background(), [2]int{g, i}); err != nil {
						t.Errorf("put: %v", err)
					}
				}
			})
		}
		go func() {
			wg.Wait()
			in.Close()
		}()
		var seen [goroutines][each]int
		var last [goroutines]int
		get := func(ctx context.Context) error {
			for v, err := range in.All(ctx) {
				if err != nil {
					return err
				}
				seen[v[0]][v[1]]++
				if tasks == 1 && v[1] < last[v[0]] {
					t.Errorf("goroutine %d: %d after %d", v[0], v[1], last[v[0]])
				}
				last[v[0]] = v[1]
				if s := in.Statistics(); s.Used > s.Capacity {
					t.Errorf("%+v", s)
				}
			}
			return nil
		}
		err := spindle.Run(t.Context(), func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				for range tasks {
					n.Go(get)
				}
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		for g := range seen {
			for i, n := range seen[g] {
				if n != 1 {
					t.Errorf("%d tasks: value %d of goroutine %d came %d times", tasks, i, g, n)
				}
			}
		}
	}
}

// TestInboxToManyGoroutines is the other direction.
func TestInboxToManyGoroutines(t *testing.T) {
	const goroutines, many = 4, 2000
	out := cosync.NewInbox[int](3)
	var sum atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for v, err := range out.All(context.Background()) {
				if err != nil {
					t.Error(err)
				}
				sum.Add(int64(v))
			}
		})
	}
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		defer out.Close()
		for i := range many {
			if err := out.Put(ctx, i); err != nil {
				return err
			}
		}
		return nil
	})
	wg.Wait()
	if want := int64(many * (many - 1) / 2); err != nil || sum.Load() != want {
		t.Fatalf("sum %d, want %d, %v", sum.Load(), want, err)
	}
}

// TestInboxBetweenTwoLoops: tasks wait on both loops, and the loops do not block.
func TestInboxBetweenTwoLoops(t *testing.T) {
	const many = 1000
	in := cosync.NewInbox[int](2)
	var ticks [2]atomic.Int64
	loop := func(i int, fn func(ctx context.Context) error) error {
		return spindle.Run(t.Context(), func(ctx context.Context) error {
			spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
				for {
					ticks[i].Add(1)
					if err := spindle.Sleep(ctx, time.Microsecond); err != nil {
						return err
					}
				}
			})
			return fn(ctx)
		})
	}
	done := make(chan error, 1)
	go func() {
		done <- loop(0, func(ctx context.Context) error {
			defer in.Close()
			// There is no reader yet. This loop runs nevertheless.
			in.Put(ctx, 0)
			in.Put(ctx, 1)
			for i := 2; i < many; i++ {
				if err := in.Put(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	until.Holds(t, func() bool { return in.Statistics().Putting == 1 && ticks[0].Load() > 10 })
	next := 0
	err := loop(1, func(ctx context.Context) error {
		for v, err := range in.All(ctx) {
			if err != nil {
				return err
			}
			if v != next {
				t.Errorf("%d instead of %d", v, next)
			}
			next++
		}
		return nil
	})
	if err := errors.Join(err, <-done); err != nil || next != many {
		t.Fatalf("%d, %v", next, err)
	}
}

func TestInboxCancelAndClose(t *testing.T) {
	in := cosync.NewInbox[int](1)
	if err := in.TryPut(1); err != nil {
		t.Fatal(err)
	}
	if err := in.TryPut(2); err != cosync.ErrWouldBlock {
		t.Errorf("into a full inbox: %v", err)
	}
	cause := errors.New("the cause")
	ctx, cancel := context.WithCancelCause(context.Background())
	errs := make(chan error, 2)
	go func() { errs <- in.Put(ctx, 3) }()
	until.Holds(t, func() bool { return in.Statistics().Putting == 1 })
	go func() { errs <- in.Put(context.Background(), 4) }()
	until.Holds(t, func() bool { return in.Statistics().Putting == 2 })
	cancel(cause)
	if err := <-errs; err != cause {
		t.Errorf("cancelled put: %v", err)
	}
	if err := in.Put(ctx, 5); err != cause {
		t.Errorf("put when cancelled: %v", err)
	}
	if v, err := in.TryGet(); v != 1 || err != nil {
		t.Errorf("got %d, %v", v, err)
	}
	if err := <-errs; err != nil {
		t.Errorf("put into a free slot: %v", err)
	}
	go func() { errs <- in.Put(context.Background(), 6) }()
	until.Holds(t, func() bool { return in.Statistics().Putting == 1 })
	in.Close()
	in.Close()
	if err := <-errs; err != cosync.ErrClosed {
		t.Errorf("put while closing: %v", err)
	}
	if err := in.TryPut(7); err != cosync.ErrClosed {
		t.Errorf("put when closed: %v", err)
	}
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		if v, err := in.Get(ctx); v != 4 || err != nil {
			t.Errorf("what was left: %d, %v", v, err)
		}
		_, err := in.Get(ctx)
		return err
	})
	if err != cosync.ErrClosed {
		t.Errorf("get when closed and empty: %v", err)
	}
}

// TestInboxCancelDuringPut cancels a task in Get while a goroutine puts a value, with
// varying timing. This Get or the next one returns the value.
func TestInboxCancelDuringPut(t *testing.T) {
	in := cosync.NewInbox[int](1)
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		got, cut := 0, 0
		for round := range 2000 {
			put := make(chan error, 1)
			_, err := spindle.MoveOnAfter(ctx, time.Duration(round%50)*100*time.Nanosecond, func(ctx context.Context) error {
				go func() { put <- in.Put(context.Background(), round) }()
				v, err := in.Get(ctx)
				if err != nil {
					cut++
					return err
				}
				if got++; v != round {
					t.Errorf("got %d in round %d", v, round)
				}
				return nil
			})
			if err != nil {
				return err
			}
			if err := <-put; err != nil {
				return err
			}
			if got+cut == round+1 && in.Statistics().Used == 1 {
				if v, err := in.TryGet(); v != round || err != nil {
					t.Errorf("left over: %d, %v in round %d", v, err, round)
				}
				cut--
				got++
			}
		}
		if got != 2000 || in.Statistics().Used != 0 {
			t.Errorf("got %d, %+v", got, in.Statistics())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestInboxPutWithATasksContext: a goroutine that has the context of a task is not mistaken
// for the task.
func TestInboxPutWithATasksContext(t *testing.T) {
	in := cosync.NewInbox[int](1)
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		err := make(chan error, 1)
		go func() {
			for i := range 100 {
				if e := in.Put(ctx, i); e != nil {
					err <- e
					return
				}
			}
			err <- nil
		}()
		for i := range 100 {
			if v, err := in.Get(ctx); v != i || err != nil {
				t.Errorf("got %d, %v", v, err)
			}
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
		return <-err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestInboxDoesNotBlockALoop: a task that waits without its own context, and a callback,
// would block the loop and everything that could end the wait.
func TestInboxDoesNotBlockALoop(t *testing.T) {
	const remedy = " would block the loop: in a task, pass the task's ctx; in a callback, use TryPut or TryGet"
	in := cosync.NewInbox[int](1)
	get := func() { in.Get(context.Background()) }
	put := func() { in.Put(context.Background(), 1) }
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		check := func() {
			if got, want := panicOf(get), "cosync: Inbox.Get"+remedy; got != want {
				t.Errorf("Get: panic %v, want %q", got, want)
			}
			put() // does not wait
			if got, want := panicOf(put), "cosync: Inbox.Put"+remedy; got != want {
				t.Errorf("Put: panic %v, want %q", got, want)
			}
			get()
		}
		check()
		called := spindle.NewFuture[int](ctx)
		spindle.LoopOf(ctx).CallSoon(func() {
			check()
			called.Resolve(0)
		})
		_, err := called.Await(ctx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
