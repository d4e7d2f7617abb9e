package cancelpoints_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spindleloop/spindle"
)

// naps sleeps twice, with a yield between.
func naps(ctx context.Context) error {
	if err := spindle.Sleep(ctx, time.Second); err != nil {
		return err
	}
	if err := spindle.Yield(ctx); err != nil {
		return err
	}
	return spindle.Sleep(ctx, time.Second)
}

// nothing is the check of a program that needs none of its own.
func nothing() error { return nil }

// The programs over the waits of this package; those of cosync have their own.
var programs = []program{
	{"Sleep", 1, []string{"Sleep"}, false, func(st *stage) func() error {
		var woke time.Duration
		st.Go(st.task(st.target(0, naps)))
		st.Go(func(ctx context.Context) error {
			err := naps(ctx)
			woke = spindle.LoopOf(ctx).Time()
			return err
		})
		return func() error {
			if woke != 2*time.Second {
				return fmt.Errorf("the other woke at %v", woke)
			}
			return nil
		}
	}},
	{"NestedNurseries", 3, []string{"Sleep", "nursery"}, true, nestedNurseries},
	{"Start", 3, []string{"Future", "Sleep"}, false, func(st *stage) func() error {
		n := st.Nursery
		got, started := 0, false
		st.Go(st.task(st.target(0, func(ctx context.Context) (err error) {
			got, err = spindle.Start(ctx, n, func(ctx context.Context, report func(int)) error {
				return st.task(st.target(1, func(ctx context.Context) error {
					if err := naps(ctx); err != nil {
						return err
					}
					report(7)
					started = true
					return naps(ctx)
				}))(ctx)
			})
			if err != nil && err.Error() == "spindle: task ended before it had started" {
				err = nil
			}
			return err
		})))
		st.Go(st.task(st.target(2, naps)))
		return func() error {
			if got == 7 && !started {
				return errors.New("a report that never was")
			}
			return nil
		}
	}},
	{"Gather", 2, []string{"Sleep", "nursery"}, false, func(st *stage) func() error {
		one := func(v int, fn func(context.Context) error) func(context.Context) (int, error) {
			return func(ctx context.Context) (int, error) { return v, st.task(fn)(ctx) }
		}
		st.Go(st.task(st.target(0, func(ctx context.Context) error {
			got, err := spindle.Gather(ctx, one(1, naps), one(2, st.target(1, naps)), one(3, spindle.Yield))
			if err == nil && !slices.Equal(got, []int{1, 2, 3}) {
				return fmt.Errorf("lost: %v", got)
			}
			return err
		})))
		return nothing
	}},
	{"GatherAll", 2, []string{"Sleep", "nursery"}, false, func(st *stage) func() error {
		one := func(v int, fn func(context.Context) error) func(context.Context) (int, error) {
			return func(ctx context.Context) (int, error) { return v, st.task(fn)(ctx) }
		}
		st.Go(st.task(st.target(0, func(ctx context.Context) error {
			results, failures, err := spindle.GatherAll(ctx, one(1, naps), one(2, st.target(1, naps)), one(3, spindle.Yield))
			for i, v := range results {
				if v != i+1 || failures[i] != nil && err == nil {
					return fmt.Errorf("%d: %d, %v, %v", i, v, failures[i], err)
				}
			}
			return err
		})))
		return nothing
	}},
	{"Wait", 2, []string{"Wait", "Sleep"}, false, func(st *stage) func() error {
		a, b, all := spawned(st)
		calls := 0
		st.Go(st.task(st.target(0, func(ctx context.Context) error {
			for _, until := range []spindle.Until{spindle.FirstDone, spindle.FirstFailure, spindle.AllDone} {
				done, pending, err := spindle.Wait(ctx, until, all...)
				if err != nil {
					return err
				}
				if calls++; len(done) < calls || len(done)+len(pending) != len(all) {
					return fmt.Errorf("%d done, %d pending", len(done), len(pending))
				}
			}
			return nil
		})))
		return func() error { return kept(a, b) }
	}},
	{"AsCompleted", 2, []string{"AsCompleted", "Sleep"}, false, func(st *stage) func() error {
		a, b, all := spawned(st)
		seen := map[spindle.Awaitable]bool{}
		st.Go(st.task(st.target(0, func(ctx context.Context) error {
			for f, err := range spindle.AsCompleted(ctx, all...) {
				if err != nil {
					return err
				}
				if seen[f] || !f.Done() {
					return errors.New("twice, or too early")
				}
				seen[f] = true
			}
			if len(seen) != len(all) {
				return fmt.Errorf("%d seen", len(seen))
			}
			return nil
		})))
		return func() error { return kept(a, b) }
	}},
	{"Future", 2, []string{"Future", "Sleep"}, false, func(st *stage) func() error {
		promises := make(map[int]*spindle.Future[int])
		got := 0
		await := func(ctx context.Context) error {
			for i := range 3 {
				v, err := promises[i].Await(ctx)
				if err != nil {
					return err
				}
				if v != i {
					return fmt.Errorf("promise %d gave %d", i, v)
				}
				got++
			}
			return nil
		}
		st.Go(func(ctx context.Context) error {
			for i := range 3 {
				promises[i] = spindle.NewFuture[int](ctx)
			}
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(await)
				n.Go(st.task(st.target(0, await)))
				n.Go(await)
				for i := range 3 {
					// An interrupted sleep must not keep the promise from being kept.
					if err := st.target(1, naps)(ctx); err != nil {
						return err
					}
					promises[i].Resolve(i)
				}
				return nil
			})
		})
		return func() error {
			if got < 6 {
				return fmt.Errorf("only %d were given", got)
			}
			return nil
		}
	}},
	{"Shield", 1, []string{"Sleep"}, true, func(st *stage) func() error {
		st.Go(st.target(0, func(ctx context.Context) error {
			err := spindle.Shield(ctx, func(ctx context.Context) error {
				st.begun++
				err := naps(ctx)
				if err == nil {
					st.ended++ // whole, whenever it was cancelled
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("shielded: %w", err)
			}
			return spindle.Sleep(ctx, time.Second)
		}))
		return nothing
	}},
	{"Grace", 1, []string{"Sleep"}, true, func(st *stage) func() error {
		st.Go(st.target(0, func(ctx context.Context) error {
			st.begun++
			defer func() {
				if spindle.Grace(ctx, time.Minute, naps) == nil {
					st.ended++ // whole, whenever it was cancelled
				}
			}()
			return naps(ctx)
		}))
		return nothing
	}},
	{"Timeouts", 2, []string{"Sleep"}, false, func(st *stage) func() error {
		st.Go(st.task(st.target(0, func(ctx context.Context) error {
			expired, err := spindle.MoveOnAfter(ctx, time.Second, st.target(1, forever))
			if err == nil && !expired && st.targets[1].scope.Err() == nil {
				return errors.New("for ever ended by itself")
			}
			if err != nil {
				return err
			}
			return spindle.FailAfter(ctx, 3*time.Second, naps)
		})))
		return nothing
	}},
	{"Blocking", 1, []string{"Blocking"}, false, func(st *stage) func() error { return offloaded(st, spindle.Blocking[int], 0) }},
	{"Abandon", 1, []string{"Abandon"}, false, func(st *stage) func() error { return offloaded(st, spindle.Abandon[int], 1) }},
	{"Park", 2, []string{"mailbox"}, false, parked},
	{"Lot", 1, []string{"gift"}, false, lotted},
}

// nestedNurseries are two nurseries in another one, each with its own tasks. The tasks take
// time to clean up, the inner ones longer, so that a nursery that does not wait for its
// tasks is detected.
func nestedNurseries(st *stage) func() error {
	st.Go(st.task(st.target(0, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, outer *spindle.Nursery) error {
			for i := range 2 {
				outer.Go(st.task(st.target(1+i, func(ctx context.Context) error {
					return spindle.WithNursery(ctx, func(ctx context.Context, inner *spindle.Nursery) error {
						inner.Go(st.task(tidily(tidily(naps))))
						outer.Go(st.task(tidily(naps))) // even when it is being cancelled
						if err := naps(ctx); err != nil {
							return err
						}
						inner.Go(st.task(tidily(tidily(naps))))
						return nil
					})
				})))
			}
			return nil
		})
	})))
	return nothing
}

// tidily returns a function that calls fn and then sleeps, even if it was cancelled.
func tidily(fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := fn(ctx)
		return errors.Join(err, spindle.Grace(ctx, time.Minute, naps))
	}
}

// spawned returns two futures. The task of the first may be cancelled.
func spawned(st *stage) (a, b *spindle.Future[int], all []spindle.Awaitable) {
	a = spindle.Spawn(st.Nursery, func(ctx context.Context) (int, error) { return 1, st.task(st.target(1, naps))(ctx) })
	b = spindle.Spawn(st.Nursery, func(ctx context.Context) (int, error) {
		err := st.task(naps)(ctx)
		return 2, errors.Join(err, spindle.Sleep(ctx, time.Second))
	})
	c := spindle.Spawn(st.Nursery, func(ctx context.Context) (int, error) { return 3, st.task(spindle.Yield)(ctx) })
	return a, b, []spindle.Awaitable{a, b, c}
}

// kept fails if the results of spawned are missing.
func kept(a, b *spindle.Future[int]) error {
	for i, f := range []*spindle.Future[int]{a, b} {
		if v, err := f.Result(); v != i+1 || err != nil {
			return fmt.Errorf("result %d: %d, %v", i+1, v, err)
		}
	}
	return nil
}
