package behaviour_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

// blockHere blocks the goroutine it is called on.
func blockHere(released <-chan struct{}) { <-released }

// TestBlockingCodeDelaysTasks of the same loop, and the watchdog names the code while it
// blocks.
func TestBlockingCodeDelaysTasks(t *testing.T) {
	released := make(chan struct{})
	var once sync.Once
	o := spindle.Options{Loop: loop.Options{
		Watchdog: 20 * time.Millisecond,
		OnBlocked: func(b loop.Blocked) {
			if bytes.Contains(b.Stack, []byte("blockHere")) { // on a busy machine other turns are reported too
				once.Do(func() { close(released) })
			}
		},
	}}
	var late time.Duration
	err := o.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { // unrelated
				due := spindle.Now(ctx).Add(time.Millisecond)
				err := spindle.Sleep(ctx, time.Millisecond)
				late = spindle.Now(ctx).Sub(due)
				return err
			})
			n.Go(func(ctx context.Context) error { blockHere(released); return nil })
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if late < 15*time.Millisecond {
		t.Errorf("the unrelated task was only %v late", late)
	}
}

// TestOffloadedCodeDelaysNoTask: the same code in Blocking lets other tasks run.
func TestOffloadedCodeDelaysNoTask(t *testing.T) {
	released := make(chan struct{})
	o := spindle.Options{Loop: loop.Options{
		Watchdog: 2 * time.Second,
		OnBlocked: func(b loop.Blocked) {
			if !b.Starved { // on a busy machine it may be
				t.Errorf("an offloaded section blocked the loop: %v", b)
			}
		},
	}}
	err := o.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				for range 5 { // all of it while the other is blocked
					if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
						return err
					}
				}
				close(released)
				return nil
			})
			_, err := spindle.Blocking(ctx, func() (int, error) { blockHere(released); return 0, nil })
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestBlocking(t *testing.T) {
	boom := errors.New("boom")
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		if n, err := spindle.Blocking(ctx, func() (int, error) { return 7, boom }); n != 7 || err != boom {
			t.Errorf("%d, %v", n, err)
		}
		func() {
			defer func() {
				if p, ok := recover().(*spindle.PanicError); !ok || p.Value != "boom" || !bytes.Contains(p.Stack, []byte("blocking_test")) {
					t.Errorf("panic %v", p)
				}
			}()
			spindle.Blocking(ctx, func() (int, error) { panic("boom") })
		}()
		// Cancelled: Blocking waits for the end of work, Abandon does not.
		var ended atomic.Bool
		release := make(chan struct{})
		expired, err := spindle.MoveOnAfter(ctx, time.Millisecond, func(ctx context.Context) error {
			_, err := spindle.Abandon(ctx, func() (int, error) { <-release; ended.Store(true); return 0, nil })
			return err
		})
		if !expired || err != nil || ended.Load() {
			t.Errorf("expired %v, %v, ended %v", expired, err, ended.Load())
		}
		close(release)
		got := 0
		err = spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) (err error) {
			l, canceled := spindle.LoopOf(ctx), ctx.Done()
			got, err = spindle.Blocking(ctx, func() (int, error) {
				err := l.Post(func() { s.Cancel(nil) })
				<-canceled
				return 9, err
			})
			return err
		})
		if got != 9 || err != nil {
			t.Errorf("a result after cancellation was lost: %d, %v", got, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRunWaitsForBlockingWork that cannot be stopped: it has ended when Run returns.
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

// TestWorkersAreLimited: as many jobs run at a time as there are workers, and all jobs are
// done.
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
	o := spindle.Options{Loop: loop.Internal().WithKernel(loop.Options{Workers: most}, k)}
	err = o.Run(t.Context(), func(ctx context.Context) error {
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

// countedWorkers counts the workers that are started.
type countedWorkers struct {
	kernel.Workers
	started int
}

func (w *countedWorkers) Start(work func()) {
	w.started++
	w.Workers.Start(work)
}

// TestReturnedPanicIsAnError: only a panic of the code itself is one of the caller.
func TestReturnedPanicIsAnError(t *testing.T) {
	other := &spindle.PanicError{Value: "of another loop"}
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		_, err := spindle.Blocking(ctx, func() (int, error) { return 0, other })
		return err
	})
	if err != error(other) {
		t.Errorf("got %v", err)
	}
}
