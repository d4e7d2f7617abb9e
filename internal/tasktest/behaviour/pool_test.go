package behaviour_test

import (
	"context"
	"errors"
	"log"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/workers"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

// counts returns the numbers of a pool of the task's loop; "" is the loop's own.
func counts(ctx context.Context, pool string) workers.Counts {
	for _, c := range spindle.LoopOf(ctx).Internal().WorkerCounts() {
		if c.Pool == pool {
			return c
		}
	}
	return workers.Counts{}
}

// holding starts n tasks that block in the pool of ctx, which has the given name, until release, and returns when all of
// them have called Blocking, and as many as can have begun.
func holding(ctx context.Context, name string, in *spindle.Nursery, n int, release chan struct{}) error {
	begun := 0
	for range n {
		in.Go(func(context.Context) error {
			begun++
			_, err := spindle.Blocking(ctx, func() (int, error) { <-release; return 0, nil })
			return err
		})
	}
	waits := func() bool {
		c := counts(ctx, name)
		return begun < n || c.Queued > max(0, c.Unfinished-c.Limit)
	}
	for waits() {
		if err := spindle.Sleep(ctx, 100*time.Microsecond); err != nil {
			return err
		}
	}
	return nil
}

// TestAFullPoolDelaysNoOther: while slow calls fill a pool, and wait in its queue, calls of
// another pool and those without one run. So do calls of a pool while the loop's own workers
// are all busy.
func TestAFullPoolDelaysNoOther(t *testing.T) {
	slow, quick := &spindle.Pool{Name: "slow", Limit: 2}, &spindle.Pool{Name: "quick"}
	release := make(chan struct{})
	o := spindle.Options{Loop: loop.Options{Workers: 3}}
	err := o.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			one := func() (int, error) { return 1, nil }
			if err := holding(slow.In(ctx), slow.Name, n, 10, release); err != nil {
				return err
			}
			for range 10 {
				if _, err := spindle.Blocking(ctx, one); err != nil {
					return err
				}
				if _, err := spindle.Blocking(quick.In(ctx), one); err != nil {
					return err
				}
			}
			if got := counts(ctx, "slow"); got.Busy != 2 || got.Queued != 8 || got.Limit != 2 || got.Delivered != 0 {
				t.Errorf("the slow pool has %+v", got)
			}
			if err := holding(ctx, "", n, 10, release); err != nil {
				return err
			}
			if _, err := spindle.Blocking(quick.In(ctx), one); err != nil {
				return err
			}
			if got := counts(ctx, ""); got.Busy != 3 || got.Queued != 7 || got.Delivered != 10 {
				t.Errorf("the loop's own pool has %+v", got)
			}
			if got := counts(ctx, "quick"); got.Limit != 3 || got.Delivered != 11 {
				t.Errorf("the quick pool has %+v", got)
			}
			if jobs := spindle.LoopOf(ctx).Stats(); jobs.Jobs != 20 || jobs.JobsDone != 21 {
				t.Errorf("%d jobs, %d done", jobs.Jobs, jobs.JobsDone)
			}
			close(release)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPoolLimit: never more calls run than the limit says, and all of them run.
func TestPoolLimit(t *testing.T) {
	pool := &spindle.Pool{Limit: 3}
	var now, most, all atomic.Int32
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		// Tasks of a nursery use the pool of its context.
		return spindle.WithNursery(pool.In(ctx), func(ctx context.Context, n *spindle.Nursery) error {
			var first sync.WaitGroup
			first.Add(3)
			for i := range 50 {
				n.Go(func(ctx context.Context) error {
					_, err := spindle.Blocking(ctx, func() (int, error) {
						if i < 3 {
							first.Done()
							first.Wait() // three run together
						}
						most.Store(max(most.Load(), now.Add(1)))
						defer now.Add(-1)
						all.Add(1)
						return 0, nil
					})
					return err
				})
			}
			return nil
		})
	})
	if err != nil || most.Load() > 3 || all.Load() != 50 {
		t.Errorf("%v, %d at a time, %d in all", err, most.Load(), all.Load())
	}
}

// TestCancelledCallsLeaveTheirPool: a call that waits for a worker is cancelled at once, and its
// work never runs.
func TestCancelledCallsLeaveTheirPool(t *testing.T) {
	pool := &spindle.Pool{Name: "one", Limit: 1}
	release := make(chan struct{})
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			if err := holding(pool.In(ctx), pool.Name, n, 1, release); err != nil {
				return err
			}
			expired, err := spindle.MoveOnAfter(ctx, time.Millisecond, func(ctx context.Context) error {
				_, err := spindle.Blocking(pool.In(ctx), func() (int, error) { t.Error("it runs"); return 0, nil })
				return err
			})
			if got := counts(ctx, "one"); !expired || err != nil || got.Queued != 0 || got.Unfinished != 1 {
				t.Errorf("expired %v, %v, %+v", expired, err, got)
			}
			close(release)
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPoolInASimulatedWorld: work of pools runs when every task waits, as all work does.
func TestPoolInASimulatedWorld(t *testing.T) {
	pool := &spindle.Pool{Name: "shared"} // by several worlds
	f := sim.Search{Runs: 20}.Find(t.Context(), func(w *sim.World) {
		for _, name := range []string{"a", "b"} {
			w.Host(name).Go(func(ctx context.Context) error {
				v, err := spindle.Blocking(pool.In(ctx), func() (int, error) { return 7, nil })
				if v != 7 {
					return errors.Join(err, errors.New("no value"))
				}
				return err
			})
		}
	})
	if f != nil {
		t.Error(f.Err)
	}
}

// TestABurstIsNotAFullPool: more calls than workers at once do not wait for long, whenever the
// burst before was.
func TestABurstIsNotAFullPool(t *testing.T) {
	out := &logged{}
	log.SetOutput(out)
	defer log.SetOutput(os.Stderr)
	pool := &spindle.Pool{Name: "bursts", Limit: 2}
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		for range 3 {
			err := spindle.ForEach(pool.In(ctx), 10, make([]int, 10), func(ctx context.Context, _ int) error {
				_, err := spindle.Blocking(ctx, func() (int, error) { return 0, nil })
				return err
			})
			if err != nil {
				return err
			}
			spindle.Sleep(ctx, 110*time.Millisecond) // longer than a wait that is logged
		}
		return nil
	})
	if text := out.String(); err != nil || strings.Contains(text, "are busy") && !strings.Contains(text, "starved") {
		t.Errorf("%v, %s", err, text)
	}
}

// TestAFullPoolIsLogged once, with its name, its limit and the remedy.
func TestAFullPoolIsLogged(t *testing.T) {
	out := &logged{}
	log.SetOutput(out)
	defer log.SetOutput(os.Stderr)
	for _, pool := range []*spindle.Pool{nil, {Name: "db", Limit: 2}} {
		want := "all 4 workers (loop.Options.Workers) are busy"
		if pool != nil {
			want = `all 2 workers of pool "db" are busy`
		}
		release := make(chan struct{})
		o := spindle.Options{Loop: loop.Options{Workers: 4}}
		err := o.Run(t.Context(), func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				in, name := ctx, ""
				if pool != nil {
					in, name = pool.In(ctx), pool.Name
				}
				if err := holding(in, name, n, 6, release); err != nil {
					return err
				}
				for !strings.Contains(out.String(), want) {
					if err := errors.Join(holding(in, name, n, 1, release), spindle.Sleep(ctx, time.Millisecond)); err != nil {
						return err
					}
				}
				for range 100 {
					if err := holding(in, name, n, 1, release); err != nil {
						return err
					}
				}
				close(release)
				return nil
			})
		})
		if err != nil {
			t.Error(err)
		}
		if text := out.String(); strings.Count(text, want) != 1 || !strings.Contains(text, "spindle.Pool") {
			t.Errorf("%q is not logged once:\n%s", want, text)
		}
	}
}
