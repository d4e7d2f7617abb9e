package cosync_test

import (
	"context"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

// world is a small program in which one task, the victim, is cancelled at some
// moment. The others must get to their end whatever happens to it; then check
// tells what is wrong.
type world struct {
	*spindle.Nursery
	victim func(func(ctx context.Context) error)
	gone   func() bool // the victim is
}

type program struct {
	name string
	play func(w *world) (check func() error)
}

// TestCancelAtEveryStep plays each program again and again, and cancels the victim
// at the first scheduling step, at the second, and so on, before the others of
// the step, among them, and after them: no item is lost, no permit leaks, nobody
// is stuck.
func TestCancelAtEveryStep(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			for _, lane := range []loop.Priority{loop.High, loop.Normal, loop.Low} {
				step, inTime := 0, true
				for ; inTime; step++ {
					var err error
					if inTime, err = playWith(t.Context(), p, lane, step); err != nil {
						t.Fatalf("lane %d, cancelled at step %d: %v", lane, step, err)
					}
				}
				if step < 4 {
					t.Errorf("lane %d: the program had only %d steps", lane, step)
				}
			}
		})
	}
}

// playWith tells whether the victim was still there to be cancelled.
func playWith(ctx context.Context, p program, lane loop.Priority, step int) (inTime bool, err error) {
	err = sim.Run(ctx, func(ctx context.Context) error {
		var check func() error
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var scope *spindle.Scope
			over := false
			w := &world{Nursery: n, gone: func() bool { return over }}
			w.victim = func(fn func(context.Context) error) {
				n.Go(func(ctx context.Context) error {
					defer func() { over = true }()
					return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
						scope = s
						return fn(ctx)
					})
				})
			}
			n.GoWith(spindle.TaskOptions{Priority: lane}, func(ctx context.Context) error {
				for i := 0; i < step || scope == nil; i++ {
					if err := spindle.Yield(ctx); err != nil {
						return err
					}
				}
				inTime = !over
				scope.Cancel(nil)
				return nil
			})
			check = p.play(w)
			return nil
		})
		if err != nil {
			return err
		}
		return check()
	})
	return inTime, err
}

// TestSwitchInTheFastPath: a call that need not wait may switch all the same, when
// there were many such calls in a row. What was free before may be taken then.
func TestSwitchInTheFastPath(t *testing.T) {
	type holder struct {
		acquire func(context.Context) error
		release func()
	}
	for name, make := range map[string]func() holder{
		"Mutex": func() holder {
			var m cosync.Mutex
			return holder{m.Lock, m.Unlock}
		},
		"Semaphore": func() holder {
			s := cosync.NewSemaphore(1)
			return holder{s.Acquire, s.Release}
		},
		"Limiter": func() holder {
			l := cosync.NewLimiter(1)
			return holder{l.Acquire, l.Release}
		},
		"Queue": func() holder {
			q := cosync.NewQueue[int](1)
			return holder{func(ctx context.Context) error { return q.Put(ctx, 1) }, func() { q.TryGet() }}
		},
		"Channel": func() holder {
			tx, rx := cosync.NewChannel[int](1)
			return holder{func(ctx context.Context) error { return tx.Send(ctx, 1) }, func() { rx.TryReceive() }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for calls := range 130 {
				h := make()
				inside := 0
				simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
					hold := func(ctx context.Context) error {
						if err := h.acquire(ctx); err != nil {
							return err
						}
						if inside++; inside > 1 {
							t.Errorf("%d inside after %d calls", inside, calls)
						}
						err := settle(ctx)
						inside--
						h.release()
						return err
					}
					n.Go(func(ctx context.Context) error {
						for range calls {
							if err := spindle.Checkpoint(ctx); err != nil {
								return err
							}
						}
						return hold(ctx)
					})
					n.Go(hold)
					return nil
				})
			}
		})
	}
}
