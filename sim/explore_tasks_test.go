package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

// fewer returns short.Seeds of n, or less under the race detector.
func fewer(n int) int {
	if short.UnderRace {
		n /= 5
	}
	return short.Seeds(n)
}

// explore runs n seeds, or as many as SPINDLE_EXPLORE sets. It fails the test if a program
// leaves a descriptor open.
func explore(t *testing.T, n int, setup func(w *sim.World)) {
	t.Helper()
	n = fewer(n)
	if more, err := strconv.Atoi(os.Getenv("SPINDLE_EXPLORE")); err == nil {
		n = more
	}
	sim.Explore(t, n, func(w *sim.World) {
		setup(w)
		w.Always("no descriptor is left open", func() error {
			if n := sim.LeftOpen(w); n > 0 {
				return fmt.Errorf("%d are", n)
			}
			return nil
		})
	})
}

// draws returns a random source for a task.
func draws(ctx context.Context) *rand.Rand { return rand.New(spindle.LoopOf(ctx).Internal().Kernel()) }

// upTo draws a time.
func upTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

// TestExploreLocks: tasks lock and unlock, and give up now and then. No two tasks hold a
// lock at the same time, and no task waits for ever.
func TestExploreLocks(t *testing.T) {
	explore(t, 200, func(w *sim.World) {
		tasks, rounds := w.Amount("tasks", 8), w.Amount("rounds", 20)
		w.Host("host").Go(func(ctx context.Context) error {
			r := draws(ctx)
			mu, permits, ready := new(cosync.Mutex), cosync.NewSemaphore(3), new(cosync.Event)
			cond := cosync.NewCond(mu)
			inside, held, waiting := 0, 0, 0
			err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				for range tasks {
					n.Go(func(ctx context.Context) error {
						for range rounds {
							_, err := spindle.MoveOnAfter(ctx, upTo(r, 5*time.Millisecond), func(ctx context.Context) error {
								switch r.IntN(4) {
								case 0:
									if err := mu.Lock(ctx); err != nil {
										return err
									}
									defer mu.Unlock()
									if inside++; inside > 1 {
										return errors.New("two tasks hold the lock")
									}
									defer func() { inside-- }()
									return spindle.Sleep(ctx, upTo(r, time.Millisecond))
								case 1:
									if err := permits.Acquire(ctx); err != nil {
										return err
									}
									defer permits.Release()
									if held++; held > 3 {
										return errors.New("four tasks have a permit")
									}
									defer func() { held-- }()
									return spindle.Sleep(ctx, upTo(r, time.Millisecond))
								case 2:
									if err := mu.Lock(ctx); err != nil {
										return err
									}
									defer mu.Unlock()
									waiting++
									defer func() { waiting-- }()
									err := cond.Wait(ctx)
									if inside++; inside > 1 {
										return errors.New("two tasks hold the lock after Wait")
									}
									inside--
									return err
								}
								if waiting > 0 && mu.TryLock() {
									cond.Notify(1)
									mu.Unlock()
								}
								ready.Set()
								return spindle.Sleep(ctx, upTo(r, time.Millisecond))
							})
							if err != nil {
								return err
							}
						}
						return nil
					})
				}
				n.Go(func(ctx context.Context) error {
					defer ready.Set() // the other tasks may have given up before
					return spindle.Sleep(ctx, time.Minute)
				})
				return ready.Wait(ctx)
			})
			if err != nil {
				return err
			}
			if s := permits.Statistics(); s.Used != 0 || s.Waiting != 0 || !mu.TryLock() {
				return fmt.Errorf("in the end %+v", s)
			}
			return nil
		})
	})
}

// TestExploreNurseries: the tasks of a tree fail, are cancelled, shielded and timed out. No
// nursery ends before its tasks.
func TestExploreNurseries(t *testing.T) {
	broken := errors.New("broken")
	explore(t, 300, func(w *sim.World) {
		depth := w.Amount("depth", 4)
		w.Host("host").Go(func(ctx context.Context) error {
			r, live := draws(ctx), 0
			var grow func(ctx context.Context, depth int) error
			grow = func(ctx context.Context, depth int) error {
				live++
				defer func() { live-- }()
				if depth == 0 {
					if err := spindle.Sleep(ctx, upTo(r, 10*time.Millisecond)); err != nil {
						return err
					}
					if r.IntN(6) == 0 {
						return broken
					}
					return nil
				}
				mine := 0
				branch := func(ctx context.Context) error {
					err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
						for range 1 + r.IntN(3) {
							n.Go(func(ctx context.Context) error {
								mine++
								defer func() { mine-- }()
								return grow(ctx, depth-1)
							})
						}
						switch r.IntN(5) {
						case 0:
							n.Scope().Cancel(nil)
						case 1:
							return broken
						}
						return spindle.Sleep(ctx, upTo(r, 5*time.Millisecond))
					})
					if mine != 0 {
						return fmt.Errorf("a nursery ended before %d of its tasks", mine)
					}
					return err
				}
				var err error
				switch r.IntN(4) {
				case 0:
					_, err = spindle.MoveOnAfter(ctx, upTo(r, 10*time.Millisecond), branch)
				case 1:
					err = spindle.Shield(ctx, branch)
				case 2:
					err = spindle.FailAfter(ctx, upTo(r, 10*time.Millisecond), branch)
				default:
					err = branch(ctx)
				}
				if errors.Is(err, broken) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
					err = nil // the tree continues without that branch
				}
				return err
			}
			err := grow(ctx, depth)
			if live != 0 {
				return fmt.Errorf("%d tasks are left: %w", live, err)
			}
			return err
		})
	})
}

// TestExploreInboxes: tasks of several loops exchange values, and give up now and then.
// Each value is received once.
func TestExploreInboxes(t *testing.T) {
	explore(t, 100, func(w *sim.World) {
		each := w.Amount("values", 30)
		in, out := cosync.NewInbox[int](2), cosync.NewInbox[int](3)
		got := map[int]int{}
		producers, workers, left := 0, 0, 0
		w.Host("host").Exec(func(o loop.Options) error {
			g, err := loop.NewGroup(3, o)
			if err != nil {
				return err
			}
			defer g.Close()
			run := func(l *loop.Loop, fn func(ctx context.Context, r *rand.Rand) error) {
				left++
				spindle.RunOn(context.Background(), l, func(ctx context.Context) error { return fn(ctx, draws(ctx)) }, func(err error) {
					if left--; err != nil {
						panic(err)
					}
					if left == 0 {
						g.Stop()
					}
				})
			}
			for i, l := range g.Loops() {
				producers++
				run(l, func(ctx context.Context, r *rand.Rand) error {
					for n := range each {
						for put := false; !put; {
							if _, err := spindle.MoveOnAfter(ctx, upTo(r, 2*time.Millisecond), func(ctx context.Context) error {
								err := in.Put(ctx, i*1000+n)
								put = err == nil
								return err
							}); err != nil {
								return err
							}
						}
						if r.IntN(3) == 0 {
							if err := spindle.Sleep(ctx, upTo(r, 4*time.Millisecond)); err != nil {
								return err
							}
						}
					}
					if producers--; producers == 0 {
						in.Close()
					}
					return nil
				})
				workers++
				run(l, func(ctx context.Context, r *rand.Rand) error {
					for {
						v, some := 0, false
						_, err := spindle.MoveOnAfter(ctx, upTo(r, 2*time.Millisecond), func(ctx context.Context) (err error) {
							v, err = in.Get(ctx)
							some = err == nil
							return err
						})
						if errors.Is(err, cosync.ErrClosed) {
							break
						}
						if err != nil {
							return err
						}
						if some {
							if err := out.Put(ctx, v); err != nil {
								return err
							}
						}
					}
					if workers--; workers == 0 {
						out.Close()
					}
					return nil
				})
				run(l, func(ctx context.Context, r *rand.Rand) error {
					for v, err := range out.All(ctx) {
						if err != nil {
							return err
						}
						got[v]++
					}
					return nil
				})
			}
			if err := g.Run(context.Background()); err != nil {
				return err
			}
			if len(got) != 3*each {
				return fmt.Errorf("%d values of %d", len(got), 3*each)
			}
			for v, n := range got {
				if n != 1 {
					return fmt.Errorf("%d came %d times", v, n)
				}
			}
			return nil
		})
		w.Faults = sim.Faults{Spurious: 0.1}
	})
}
