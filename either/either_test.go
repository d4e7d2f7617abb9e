package either_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/either"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/sim"
)

func TestMain(m *testing.M) { leak.Main(m) }

// backends runs a program on each backend: on a loop, on goroutines, and in a world.
func backends(t *testing.T, program func(t *testing.T, ctx context.Context) error) {
	t.Run("loop", func(t *testing.T) {
		if err := spindle.Run(t.Context(), func(ctx context.Context) error { return program(t, ctx) }); err != nil {
			t.Error(err)
		}
	})
	t.Run("goroutines", func(t *testing.T) {
		if err := program(t, t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("sim", func(t *testing.T) {
		sim.Test(t, func(ctx context.Context) error { return program(t, ctx) })
	})
}

// crawl is a program of a library: workers take jobs from a queue, each job has a time-out, and
// the results are kept under a lock.
func crawl(ctx context.Context, jobs []time.Duration, limit time.Duration) (summary string, err error) {
	queue := cosync.NewInbox[time.Duration](2)
	var mu either.Mutex
	var results []string
	err = either.WithNursery(ctx, func(ctx context.Context, n *either.Nursery) error {
		for range 3 {
			n.Go(func(ctx context.Context) error {
				for {
					job, err := queue.Get(ctx)
					if errors.Is(err, cosync.ErrClosed) {
						return nil
					} else if err != nil {
						return err
					}
					result, err := perform(ctx, job, limit)
					if err != nil {
						return err
					}
					if err := mu.Lock(ctx); err != nil {
						return err
					}
					results = append(results, result)
					mu.Unlock()
				}
			})
		}
		for _, job := range jobs {
			if err := queue.Put(ctx, job); err != nil {
				return err
			}
		}
		queue.Close()
		return nil
	})
	slices.Sort(results)
	return strings.Join(results, ", "), err
}

func perform(ctx context.Context, job, limit time.Duration) (string, error) {
	err := either.FailAfter(ctx, limit, func(ctx context.Context) error { return either.Sleep(ctx, job) })
	if errors.Is(err, spindle.ErrTimeout) {
		return fmt.Sprintf("%v is too long", job), nil
	} else if err != nil {
		return "", err
	}
	return either.Blocking(ctx, func() (string, error) { return job.String(), nil })
}

// TestASYNC04: library code that is written once does the same on every backend.
func TestASYNC04(t *testing.T) {
	backends(t, func(t *testing.T, ctx context.Context) error {
		jobs := []time.Duration{1, 2, time.Hour, 3, 2 * time.Hour, 4}
		got, err := crawl(ctx, jobs, 50*time.Millisecond)
		if want := "1h0m0s is too long, 1ns, 2h0m0s is too long, 2ns, 3ns, 4ns"; got != want || err != nil {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}

		expired, err := either.MoveOnAfter(ctx, 10*time.Millisecond, func(ctx context.Context) error {
			_, err := crawl(ctx, jobs, 2*time.Hour)
			return err
		})
		if !expired || err != nil {
			t.Errorf("a crawl that takes too long: %v, %v", expired, err)
		}
		return either.Checkpoint(ctx)
	})
}

// TestFailures: a failure cancels the others, which are no failures; several are *spindle.Errors.
func TestFailures(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	forever := func(ctx context.Context) error { return either.Sleep(ctx, time.Hour) }
	fails := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	backends(t, func(t *testing.T, ctx context.Context) error {
		err := either.WithNursery(ctx, func(ctx context.Context, n *either.Nursery) error {
			n.Go(forever)
			n.Go(fails(first))
			return forever(ctx)
		})
		if err != first {
			t.Errorf("got %v", err)
		}
		err = either.WithNursery(ctx, func(ctx context.Context, n *either.Nursery) error {
			n.Go(fails(first))
			n.Go(fails(second))
			return nil
		})
		var several *spindle.Errors
		if !errors.As(err, &several) || !errors.Is(err, first) || !errors.Is(err, second) {
			t.Errorf("got %v", err)
		}
		return nil
	})
}

// TestPanics: a panic cancels the others, and continues in the code that opened the nursery.
func TestPanics(t *testing.T) {
	backends(t, func(t *testing.T, ctx context.Context) error {
		func() {
			defer func() {
				p, ok := recover().(*spindle.PanicError)
				if !ok || p.Value != "oops" || !strings.Contains(string(p.Stack), "TestPanics") {
					t.Errorf("got %+v", p)
				}
			}()
			_ = either.WithNursery(ctx, func(ctx context.Context, n *either.Nursery) error {
				n.Go(func(context.Context) error { panic("oops") })
				return either.Sleep(ctx, time.Hour)
			})
			t.Error("WithNursery has returned")
		}()
		return nil
	})
}

// TestCancellation: waits fail in a context that has ended, and when it ends.
func TestCancellation(t *testing.T) {
	waits := func() map[string]func(context.Context) error {
		full, empty := cosync.NewInbox[int](1), cosync.NewInbox[int](1)
		var mu either.Mutex
		return map[string]func(context.Context) error{
			"Sleep":      func(ctx context.Context) error { return either.Sleep(ctx, time.Hour) },
			"Get":        func(ctx context.Context) error { _, err := empty.Get(ctx); return err },
			"Put":        func(ctx context.Context) error { return errors.Join(full.Put(ctx, 1), full.Put(ctx, 2)) },
			"Lock":       func(ctx context.Context) error { return errors.Join(mu.Lock(ctx), mu.Lock(ctx)) },
			"Checkpoint": either.Checkpoint,
			"Yield":      func(ctx context.Context) error { return either.Sleep(ctx, 0) },
			"Blocking": func(ctx context.Context) error {
				_, err := either.Blocking(ctx, func() (int, error) { return 0, nil })
				return err
			},
		}
	}
	backends(t, func(t *testing.T, ctx context.Context) error {
		for name, wait := range waits() {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			if err := wait(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s in a context that has ended: %v", name, err)
			}
		}
		for name, wait := range waits() {
			if name == "Checkpoint" || name == "Yield" || name == "Blocking" {
				continue // they do not wait for long
			}
			if err := either.FailAfter(ctx, time.Millisecond, wait); !errors.Is(err, spindle.ErrTimeout) {
				t.Errorf("%s in a context that ends: %v", name, err)
			}
		}
		return nil
	})
}

// TestInboxAsQueue: a cosync.Inbox does the same on every backend. Values that are left are got after
// Close, and a Put that waits fails.
func TestInboxAsQueue(t *testing.T) {
	backends(t, func(t *testing.T, ctx context.Context) error {
		q := cosync.NewInbox[int](1)
		unused := cosync.NewInbox[int](1)
		unused.Close()
		if _, err := unused.Get(ctx); err != cosync.ErrClosed {
			t.Errorf("a queue that was closed before its first use: %v", err)
		}
		return either.WithNursery(ctx, func(ctx context.Context, n *either.Nursery) error {
			failed := cosync.NewInbox[error](1)
			if err := q.Put(ctx, 1); err != nil {
				return err
			}
			n.Go(func(ctx context.Context) error { return failed.Put(ctx, q.Put(ctx, 2)) })
			if err := either.Sleep(ctx, time.Millisecond); err != nil {
				return err
			}
			q.Close()
			q.Close()
			if err, _ := failed.Get(ctx); err != cosync.ErrClosed {
				t.Errorf("a Put that waits: %v", err)
			}
			if v, err := q.Get(ctx); v != 1 || err != nil {
				t.Errorf("the value that is left: %v, %v", v, err)
			}
			if _, err := q.Get(ctx); err != cosync.ErrClosed {
				t.Errorf("an empty queue: %v", err)
			}
			if err := q.Put(ctx, 3); err != cosync.ErrClosed {
				t.Errorf("Put after Close: %v", err)
			}
			return nil
		})
	})
}

// TestMixedUse: an object is for tasks or for goroutines. Work that a task has given to another
// goroutine is not the task, even with its context.
func TestMixedUse(t *testing.T) {
	var mu either.Mutex
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		if err := mu.Lock(ctx); err != nil {
			return err
		}
		defer mu.Unlock()
		_, err := spindle.Blocking(ctx, func() (string, error) {
			defer func() {
				if v := recover(); v == nil || !strings.HasPrefix(v.(string), "either: Mutex.Lock called by a task and by another goroutine") {
					t.Errorf("recovered %v", v)
				}
			}()
			if err := either.Sleep(ctx, time.Microsecond); err != nil {
				return "", err
			}
			return "", mu.Lock(ctx)
		})
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
