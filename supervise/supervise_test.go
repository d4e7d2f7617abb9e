package supervise_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/supervise"
)

func TestMain(m *testing.M) { leak.Main(m) }

var (
	errFailed = errors.New("failed")
	quiet     = slog.New(slog.DiscardHandler)
)

// journal is what children did, with the virtual time in milliseconds.
type journal struct {
	lines []string
	began time.Time
}

func (j *journal) add(ctx context.Context, what string) {
	if j.began.IsZero() {
		j.began = spindle.Now(ctx)
	}
	j.lines = append(j.lines, fmt.Sprintf("%d %s", spindle.Now(ctx).Sub(j.began).Milliseconds(), what))
}

// child returns a function that notes its beginning and its end. In its n-th life it lasts
// lives[n] and fails then. After the last one it waits for its cancellation.
func (j *journal) child(name string, lives ...time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		j.add(ctx, "+"+name)
		if len(lives) > 0 {
			life := lives[0]
			lives = lives[1:]
			if err := spindle.Sleep(ctx, life); err != nil {
				j.add(ctx, "-"+name)
				return err
			}
			j.add(ctx, "!"+name)
			return errFailed
		}
		err := spindle.Sleep(ctx, time.Hour)
		j.add(ctx, "-"+name)
		return err
	}
}

// wants compares the journal with lines that are separated by semicolons.
func (j *journal) wants(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(j.lines, "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestStrategies fails the second of three children once.
func TestStrategies(t *testing.T) {
	for strategy, want := range map[supervise.Strategy]string{
		supervise.OneForOne:  "0 +a; 0 +b; 0 +c; 1000 !b; 1100 +b; 2000 -c; 2000 -b; 2000 -a",
		supervise.RestForOne: "0 +a; 0 +b; 0 +c; 1000 !b; 1000 -c; 1100 +b; 1100 +c; 2000 -c; 2000 -b; 2000 -a",
		supervise.OneForAll:  "0 +a; 0 +b; 0 +c; 1000 !b; 1000 -c; 1000 -a; 1100 +a; 1100 +b; 1100 +c; 2000 -c; 2000 -b; 2000 -a",
	} {
		sim.Test(t, func(ctx context.Context) error {
			var j journal
			expired, err := spindle.MoveOnAfter(ctx, 2*time.Second, func(ctx context.Context) error {
				return supervise.Run(ctx, supervise.Options{Strategy: strategy, Log: quiet},
					supervise.Child{Name: "a", Run: j.child("a")},
					supervise.Child{Name: "b", Run: j.child("b", time.Second)},
					supervise.Child{Name: "c", Run: j.child("c")},
				)
			})
			if !expired || err != nil {
				t.Errorf("strategy %d: %v, %v", strategy, expired, err)
			}
			j.wants(t, want)
			return nil
		})
	}
}

// TestChildrenThatAreDone: a child that is restarted on failure and returns nil is done, and
// Run returns when all are.
func TestChildrenThatAreDone(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		var j journal
		lives := 0
		err := supervise.Run(ctx, supervise.Options{Strategy: supervise.OneForAll, Log: quiet},
			supervise.Child{Name: "once", Run: func(ctx context.Context) error { j.add(ctx, "once"); return nil }},
			supervise.Child{Name: "never", Restart: supervise.Never, Run: func(ctx context.Context) error { j.add(ctx, "never"); return errFailed }},
			supervise.Child{Name: "twice", Run: func(ctx context.Context) error {
				j.add(ctx, "twice")
				if lives++; lives == 1 {
					return errFailed
				}
				return nil
			}},
		)
		j.wants(t, "0 once; 0 never; 0 twice; 100 twice")
		return err
	})
}

// TestAlways: a child that is restarted always may not return.
func TestAlways(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		lives := 0
		err := supervise.Run(ctx, supervise.Options{MaxRestarts: 2, Log: quiet},
			supervise.Child{Name: "a", Restart: supervise.Always, Run: func(context.Context) error { lives++; return nil }})
		if !errors.Is(err, supervise.ErrTooMany) || !strings.HasPrefix(err.Error(), "supervise: 3 failures within 10s; the last one: a: ") || lives != 3 {
			t.Errorf("%d lives, %v", lives, err)
		}
		return nil
	})
}

// TestReadiness: a child starts when the one before it is ready. If that one fails before, it
// is restarted first.
func TestReadiness(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		var j journal
		attempt := 0
		_, err := spindle.MoveOnAfter(ctx, 5*time.Second, func(ctx context.Context) error {
			return supervise.Run(ctx, supervise.Options{Strategy: supervise.RestForOne, Log: quiet},
				supervise.Child{Name: "slow", Start: func(ctx context.Context, ready func()) error {
					j.add(ctx, "+slow")
					if err := spindle.Sleep(ctx, time.Second); err != nil {
						return err
					}
					if attempt++; attempt == 1 {
						return errFailed
					}
					ready()
					ready() // has no effect
					j.add(ctx, "ready")
					return spindle.Sleep(ctx, time.Hour)
				}},
				supervise.Child{Name: "user", Run: j.child("user")},
			)
		})
		j.wants(t, "0 +slow; 1100 +slow; 2100 ready; 2100 +user; 5000 -user")
		return err
	})
}

// TestPauses: pauses grow, and begin again after a long life.
func TestPauses(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		var j journal
		_, err := spindle.MoveOnAfter(ctx, 30*time.Second, func(ctx context.Context) error {
			return supervise.Run(ctx, supervise.Options{MaxRestarts: -1, FirstPause: time.Second, MaxPause: 3 * time.Second, Log: quiet},
				supervise.Child{Name: "a", Run: j.child("a", 0, 0, 0, 12*time.Second, 0)})
		})
		j.wants(t, "0 +a; 0 !a; 1000 +a; 1000 !a; 3000 +a; 3000 !a; 6000 +a; 18000 !a; 19000 +a; 19000 !a; 21000 +a; 30000 -a")
		return err
	})
}

// TestTooManyFailures: the supervisor stops the other children, the last one first, and the
// failure goes to the supervisor above, which starts the whole again.
func TestTooManyFailures(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		var j journal
		err := supervise.Run(ctx, supervise.Options{MaxRestarts: 1, Within: time.Minute, Log: quiet},
			supervise.Child{Name: "below", Run: func(ctx context.Context) error {
				return supervise.Run(ctx, supervise.Options{MaxRestarts: 1, Log: quiet},
					supervise.Child{Name: "a", Run: j.child("a")},
					supervise.Child{Name: "b", Run: j.child("b", 0, 0)},
				)
			}},
		)
		j.wants(t, "0 +a; 0 +b; 0 !b; 100 +b; 100 !b; 100 -a; 200 +a; 200 +b; 200 !b; 300 +b; 300 !b; 300 -a")
		if !errors.Is(err, supervise.ErrTooMany) || !errors.Is(err, errFailed) {
			t.Errorf("%v", err)
		}
		const want = "supervise: 2 failures within 1m0s; the last one: below: supervise: 2 failures within 10s; the last one: b: failed"
		if err.Error() != want {
			t.Errorf("got  %v\nwant %v", err, want)
		}
		return nil
	})
}

// TestPanics: a panic is a failure like any other, and is logged with the child's name.
func TestPanics(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		var log bytes.Buffer
		lives := 0
		err := supervise.Run(ctx, supervise.Options{Log: slog.New(slog.NewTextHandler(&log, nil))},
			supervise.Child{Name: "a", Run: func(ctx context.Context) error {
				if lives++; lives == 2 {
					return nil
				}
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.Go(func(context.Context) error { panic("oops") })
					return nil
				})
			}})
		if got := log.String(); lives != 2 || !strings.Contains(got, "child=a") || !strings.Contains(got, "oops") {
			t.Errorf("%d lives, log: %s", lives, got)
		}
		return err
	})
}

// TestFailuresAtTheEnd: failures of children that are being stopped are not lost.
func TestFailuresAtTheEnd(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		_, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) error {
			return supervise.Run(ctx, supervise.Options{},
				supervise.Child{Name: "a", Run: func(ctx context.Context) error {
					_ = spindle.Sleep(ctx, time.Hour)
					return errFailed
				}},
				supervise.Child{Name: "b", Run: func(ctx context.Context) error {
					_ = spindle.Sleep(ctx, time.Hour)
					return context.Canceled
				}})
		})
		if !errors.Is(err, errFailed) || err.Error() != "supervise: a: failed" {
			t.Errorf("%v", err)
		}
		return nil
	})
}

// TestTheRunWaitsForEachChild: a child gets its time to end after those that were started
// after it, even if all of that takes longer than Options.Grace of the run.
func TestTheRunWaitsForEachChild(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration // of the second child
		want  string
	}{
		{9 * time.Second, "0 +a; 0 +b; 1000 stopping b; 10000 stopped b; 10000 -a"},
		{time.Hour, "0 +a; 0 +b; 1000 stopping b; 11000 stopped b; 11000 -a"},
	} {
		{
			var j journal
			w := sim.NewWorld(1)
			w.Host("host").Go(func(ctx context.Context) error {
				n := spindle.RootNursery(ctx)
				n.Go(func(ctx context.Context) error {
					return supervise.Run(ctx, supervise.Options{},
						supervise.Child{Name: "a", Run: j.child("a")},
						supervise.Child{Name: "b", StopWithin: 10 * time.Second, Run: func(ctx context.Context) error {
							j.add(ctx, "+b")
							_ = spindle.Sleep(ctx, time.Hour)
							j.add(ctx, "stopping b")
							return spindle.Grace(ctx, 10*time.Second, func(ctx context.Context) error {
								err := spindle.Sleep(ctx, c.takes)
								j.add(ctx, "stopped b")
								return err
							})
						}})
				})
				_ = spindle.Sleep(ctx, time.Second)
				return errFailed // ends the run
			})
			_ = w.Run()
			j.wants(t, c.want)
		}
	}
}

// TestTheTreeShowsChildren with the number of their restarts.
func TestTheTreeShowsChildren(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		var j journal
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "top"}, func(ctx context.Context) error {
				return supervise.Run(ctx, supervise.Options{Log: quiet},
					supervise.Child{Name: "cache", Run: j.child("cache", 0)},
					supervise.Child{Name: "server", Run: j.child("server")})
			})
			if err := spindle.Sleep(ctx, time.Second); err != nil {
				return err
			}
			tree := spindle.TreeOf(ctx).String()
			for _, name := range []string{"top", "cache, restart 1", "server"} {
				if !strings.Contains(tree, name) {
					t.Errorf("no %q in the tree:\n%s", name, tree)
				}
			}
			n.Scope().Cancel(nil)
			return nil
		})
	})
}

// TestWrongChildren: misuse panics with the name of the child.
func TestWrongChildren(t *testing.T) {
	run := func(context.Context) error { return nil }
	start := func(context.Context, func()) error { return nil }
	for want, c := range map[string]supervise.Child{
		"supervise: Run with a child that has no name":       {Run: run},
		"supervise: child a must have either Run or Start":   {Name: "a"},
		"supervise: child b must have either Run or Start":   {Name: "b", Run: run, Start: start},
		"supervise: child c has an unknown value of Restart": {Name: "c", Run: run, Restart: 3},
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("got %v, want %v", got, want)
				}
			}()
			_ = supervise.Run(t.Context(), supervise.Options{}, c)
		}()
	}
}

// TestRandomSupervisors: whatever the strategy and the times, a child is never alive twice, the
// children are stopped in the reverse order of their start, and all have ended in the end.
func TestRandomSupervisors(t *testing.T) {
	sim.Explore(t, 50, func(w *sim.World) {
		w.Host("host").Go(func(ctx context.Context) error {
			r := spindle.Rand(ctx)
			alive := map[int]bool{}
			var children []supervise.Child
			for i := range 1 + r.IntN(5) {
				children = append(children, supervise.Child{
					Name:    fmt.Sprint(i),
					Restart: supervise.Restart(r.IntN(3)),
					Start: func(ctx context.Context, ready func()) error {
						if alive[i] {
							t.Errorf("child %d is alive twice", i)
						}
						alive[i] = true
						defer delete(alive, i)
						for step := range 3 {
							if step == r.IntN(3) {
								ready()
							}
							if err := spindle.Sleep(ctx, time.Duration(r.IntN(2000))*time.Millisecond); err != nil {
								return err
							}
							if r.IntN(4) == 0 {
								panic("oops")
							}
						}
						return []error{nil, errFailed}[r.IntN(2)]
					},
				})
			}
			o := supervise.Options{Strategy: supervise.Strategy(r.IntN(3)), MaxRestarts: r.IntN(8) - 1, Log: quiet}
			_, err := spindle.MoveOnAfter(ctx, time.Duration(r.IntN(60_000))*time.Millisecond, func(ctx context.Context) error {
				return supervise.Run(ctx, o, children...)
			})
			if err != nil && !errors.Is(err, supervise.ErrTooMany) && !errors.Is(err, errFailed) {
				t.Errorf("%v", err)
			}
			if len(alive) > 0 {
				t.Errorf("still alive: %v", slices.Collect(func(yield func(int) bool) {
					for i := range alive {
						if !yield(i) {
							return
						}
					}
				}))
			}
			return nil
		})
	})
}
