package spindle_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

// TestFireAndForgetTasksAreHeld: nobody refers to them but the run, and they
// are there after every collection.
func TestFireAndForgetTasksAreHeld(t *testing.T) {
	ended := 0
	sim.Test(t, func(ctx context.Context) error {
		for i := range 100 {
			spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
				err := spindle.Sleep(ctx, time.Duration(i)*time.Second)
				ended++
				return err
			})
		}
		for range 3 {
			if err := spindle.Sleep(ctx, 33*time.Second); err != nil {
				return err
			}
			runtime.GC()
		}
		return spindle.Sleep(ctx, time.Second)
	})
	if ended != 100 {
		t.Errorf("%d of 100 ended", ended)
	}
}

// TestFireAndForgetTasksEndWithTheRun: they are cancelled, may clean up, and what
// they fail with is not lost.
func TestFireAndForgetTasksEndWithTheRun(t *testing.T) {
	cleaned := false
	boom := errors.New("boom")
	err := sim.Run(t.Context(), func(ctx context.Context) error {
		spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
			if err := forever(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			err := spindle.Grace(ctx, time.Second, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Millisecond) })
			cleaned = err == nil
			return boom
		})
		return spindle.Yield(ctx)
	})
	if err != boom || !cleaned {
		t.Errorf("%v, cleaned up %v", err, cleaned)
	}
}

// TestFireAndForgetFailureEndsTheRun, and comes out of it.
func TestFireAndForgetFailureEndsTheRun(t *testing.T) {
	boom := errors.New("boom")
	err := sim.Run(t.Context(), func(ctx context.Context) error {
		spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
			return errors.Join(spindle.Sleep(ctx, time.Minute), boom)
		})
		err := forever(ctx)
		if now := spindle.LoopOf(ctx).Time(); now != time.Minute {
			t.Errorf("%v at %v", err, now)
		}
		return err
	})
	if !errors.Is(err, boom) || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestHeedlessCodeDoesNotSpin: waits that fail at once because their scope is
// cancelled let the others run, and then slow down. The count is of waits in
// the five seconds that a run gives it.
func TestHeedlessCodeDoesNotSpin(t *testing.T) {
	for name, wait := range map[string]func(context.Context) error{
		"Sleep":      func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) },
		"Yield":      spindle.Yield,
		"Checkpoint": spindle.Checkpoint,
		"Blocking": func(ctx context.Context) error {
			_, err := spindle.Blocking(ctx, func() (int, error) { return 0, nil })
			return err
		},
		"Future": func(ctx context.Context) error {
			_, err := spindle.NewFuture[int](ctx).Await(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			waits, deferred := 0, false
			var others int
			err := sim.Run(t.Context(), func(ctx context.Context) error {
				spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Name: "heedless"}, func(ctx context.Context) error {
					defer func() { deferred = true }()
					for {
						wait(ctx)
						if ctx.Err() != nil {
							waits++
						}
						if waits > 100_000 {
							return errors.New("it spins")
						}
					}
				})
				spindle.RootNursery(ctx).Go(func(ctx context.Context) error { // heeds it, after a while
					err := forever(ctx)
					return errors.Join(err, spindle.Grace(ctx, time.Second, func(ctx context.Context) error {
						for range 1000 {
							others++
							if err := spindle.Yield(ctx); err != nil {
								return err
							}
						}
						return nil
					}))
				})
				return spindle.Yield(ctx)
			})
			var late *spindle.StragglerError
			if !errors.As(err, &late) || late.Tasks[0] != "heedless" || !deferred {
				t.Errorf("%v, deferred %v", err, deferred)
			}
			// 16 at once, then one each 10 ms.
			if most := 16 + 500 + 10; waits > most || waits < 100 || others != 1000 {
				t.Errorf("%d waits, at most %d expected; the other got %d turns", waits, most, others)
			}
		})
	}
}

// TestGraceHoldsWhenACallbackPanics: tasks that are shielded may take the grace of the
// run, and no longer; what they fail with is not lost.
func TestGraceHoldsWhenACallbackPanics(t *testing.T) {
	for name, before := range map[string]func(context.Context){
		"while all is well":             func(context.Context) {},
		"after everything is cancelled": func(ctx context.Context) { spindle.RootNursery(ctx).Scope().Cancel(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			var ended time.Duration
			err := sim.Run(t.Context(), func(ctx context.Context) error {
				spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Name: "shielded"}, func(ctx context.Context) error {
					defer func() { ended = spindle.LoopOf(ctx).Time() }()
					return spindle.Shield(ctx, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
				})
				spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
					forever(ctx)
					return errCause
				})
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
				before(ctx)
				spindle.LoopOf(ctx).CallSoon(func() { panic("boom") })
				return forever(ctx)
			})
			if ended != 5*time.Second {
				t.Errorf("the shielded task ended after %v", ended)
			}
			var failed *spindle.LoopError
			var late *spindle.StragglerError
			if !errors.As(err, &failed) || !errors.Is(err, errCause) || !errors.As(err, &late) || !slices.Equal(late.Tasks, []string{"shielded"}) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestRunWaitsForBlockingWork that cannot be stopped: when Run returns, nothing of
// it goes on.
func TestRunWaitsForBlockingWork(t *testing.T) {
	var worked atomic.Bool
	release := make(chan struct{})
	got := 0
	ctx, cancel := context.WithCancelCause(t.Context())
	err := spindle.Run(ctx, func(ctx context.Context) (err error) {
		spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
			defer close(release)
			return forever(ctx) // until the run is cancelled
		})
		got, err = spindle.Blocking(ctx, func() (int, error) {
			cancel(errCause)
			<-release
			worked.Store(true)
			return 7, nil
		})
		return errors.Join(err, spindle.Yield(ctx))
	})
	if err != errCause || !worked.Load() || got != 7 {
		t.Errorf("%v, worked %v, got %d", err, worked.Load(), got)
	}
}

// TestWorkersAreLimited: as much work goes on at once as there are workers, and
// no more, and all of it is done.
func TestWorkersAreLimited(t *testing.T) {
	const most, jobs = 3, 12
	k, err := kernel.Open("")
	if err != nil {
		t.Fatal(err)
	}
	pool := &countedWorkers{Workers: k.Workers}
	k.Workers = pool
	var first sync.WaitGroup // wait for each other: they are at work together
	first.Add(most)
	release := make(chan struct{})
	o := spindle.Options{Loop: loop.Options{Workers: most}.WithKernel(k)}
	err = spindle.RunWith(t.Context(), o, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var all []*spindle.Future[int]
			for i := range jobs {
				all = append(all, spindle.Spawn(n, func(ctx context.Context) (int, error) {
					return spindle.Blocking(ctx, func() (int, error) {
						if i < most {
							first.Done()
							first.Wait()
							<-release
						}
						return i, nil
					})
				}))
			}
			if err := spindle.Yield(ctx); err != nil { // all of them are queued
				return err
			}
			if pool.started != most {
				t.Errorf("%d workers, want %d", pool.started, most)
			}
			close(release)
			for i, f := range all {
				if v, err := f.Await(ctx); v != i || err != nil {
					t.Errorf("job %d: %d, %v", i, v, err)
				}
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// countedWorkers counts those that are started.
type countedWorkers struct {
	kernel.Workers
	started int
}

func (w *countedWorkers) Start(work func()) {
	w.started++
	w.Workers.Start(work)
}
