package spindle_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

func vanishingTask(ctx context.Context) error {
	spindle.Yield(ctx)
	runtime.Goexit()
	return nil
}

// TestRunEndsInOrderWhenATaskDoesNot: a panic or a Goexit, wherever it happens,
// cancels the others, who clean up; deferred calls run; it comes out of the run
// with the stack of the task; and the loop can be used again.
func TestRunEndsInOrderWhenATaskDoesNot(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []struct {
		name  string
		task  func(context.Context) error
		value any
		frame string
	}{
		{"panic", explodingTask, "boom", "explodingTask"},
		{"Goexit", vanishingTask, loop.ErrGoexit, "vanishingTask"},
	} {
		for _, place := range []struct {
			name string
			run  func(ctx context.Context, task func(context.Context) error) error
		}{
			{"in main", func(ctx context.Context, task func(context.Context) error) error { return task(ctx) }},
			{"in the background", func(ctx context.Context, task func(context.Context) error) error {
				spindle.RootNursery(ctx).Go(task)
				return forever(ctx)
			}},
			{"in a child", func(ctx context.Context, task func(context.Context) error) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.Go(task)
					return forever(ctx)
				})
			}},
			{"in a scope", func(ctx context.Context, task func(context.Context) error) error {
				return spindle.Shield(ctx, task)
			}},
			{"in a spawned task", func(ctx context.Context, task func(context.Context) error) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					f := spindle.Spawn(n, func(ctx context.Context) (int, error) { return 0, task(ctx) })
					_, err := f.Await(ctx)
					return err
				})
			}},
			{"in a gathered one", func(ctx context.Context, task func(context.Context) error) error {
				_, err := spindle.Gather(ctx, after(time.Hour, 0, nil), func(ctx context.Context) (int, error) { return 0, task(ctx) })
				return err
			}},
		} {
			t.Run(kind.name+" "+place.name, func(t *testing.T) {
				cleaned, deferred := false, false
				p := panicOf(func() error {
					return spindle.RunnerOn(l, spindle.Options{}).Run(t.Context(), func(ctx context.Context) error {
						spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
							err := forever(ctx)
							return errors.Join(err, spindle.Grace(ctx, time.Minute, func(ctx context.Context) error {
								err := spindle.Sleep(ctx, time.Millisecond)
								cleaned = err == nil
								return err
							}))
						})
						if err := spindle.Yield(ctx); err != nil {
							return err
						}
						return place.run(ctx, func(ctx context.Context) error {
							defer func() { deferred = true }()
							return kind.task(ctx)
						})
					})
				})
				if p == nil || p.Value != kind.value || !bytes.Contains(p.Stack, []byte(kind.frame)) {
					t.Errorf("it came out as %v", p)
				}
				if !cleaned || !deferred {
					t.Errorf("the other cleaned up: %v, deferred calls ran: %v", cleaned, deferred)
				}
				if s := l.Stats(); s.Timers != 0 || s.Ready != 0 || s.FDs != 0 {
					t.Errorf("left in the loop: %+v", s)
				}
				err := spindle.RunnerOn(l, spindle.Options{}).Run(t.Context(), func(ctx context.Context) error { return spindle.Sleep(ctx, time.Microsecond) })
				if err != nil {
					t.Errorf("the next run: %v", err)
				}
			})
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// panicOf is what fn panics with.
func panicOf(fn func() error) (p *spindle.PanicError) {
	defer func() { p, _ = recover().(*spindle.PanicError) }()
	fn()
	return nil
}

// TestPanicIsCaughtWhereANurseryIs: whoever opened it may recover, and go on.
func TestPanicIsCaughtWhereANurseryIs(t *testing.T) {
	err := nurse(t, func(ctx context.Context, _ *spindle.Nursery) error {
		p := panicOf(func() error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(explodingTask)
				return forever(ctx)
			})
		})
		if p == nil || p.Value != "boom" {
			t.Errorf("caught %v", p)
		}
		return spindle.Sleep(ctx, time.Hour)
	})
	if err != nil {
		t.Error(err)
	}
}
