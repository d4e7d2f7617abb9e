package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/loop"
)

// stubborn waits and ignores its cancellation.
func stubborn(ctx context.Context) error {
	for {
		spindle.Sleep(ctx, time.Hour)
	}
}

// asks returns a task that ignores its cancellation after it was inside Grace for used of
// the time d.
func asks(d, used time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		forever(ctx)
		spindle.Grace(ctx, d, func(ctx context.Context) error { return spindle.Sleep(ctx, used) })
		return stubborn(ctx)
	}
}

// TestTasksGetTheTimeThatTheyAskedFor cancels a run with tasks that ask for time to end, and
// checks when the last one has ended and which ones had to be forced. Options.Grace begins
// after the time that a task has asked for.
func TestTasksGetTheTimeThatTheyAskedFor(t *testing.T) {
	const never = 1000 * time.Hour
	works := func(d, takes time.Duration) func(context.Context) error {
		return func(ctx context.Context) error {
			forever(ctx)
			return spindle.Grace(ctx, d, func(ctx context.Context) error { return spindle.Sleep(ctx, takes) })
		}
	}
	for _, c := range []struct {
		name   string
		grace  time.Duration // of the run; zero for the default
		task   func(context.Context) error
		end    time.Duration
		forced []string
	}{
		{"asks for nothing", 0, stubborn, 5 * time.Second, []string{"task"}},
		{"asks for nothing, with a long grace", 30 * time.Second, stubborn, 30 * time.Second, []string{"task"}},
		{"Grace that is enough", 0, works(20*time.Second, 12*time.Second), 12 * time.Second, nil},
		{"Grace that is too short", 0, works(20*time.Second, never), 20 * time.Second, nil},
		{"Grace, with a short grace of the run", time.Millisecond, works(20*time.Second, 12*time.Second), 12 * time.Second, nil},
		{"Grace, then ignores its cancellation", 0, asks(20*time.Second, never), 25 * time.Second, []string{"task"}},
		{"part of Grace, then ignores its cancellation", 0, asks(time.Hour, 12*time.Second), 17 * time.Second, []string{"task"}},
		{"one Grace after the other", 0, func(ctx context.Context) error {
			for range 4 {
				if err := works(4*time.Second, 3900*time.Millisecond)(ctx); err != nil {
					return err
				}
			}
			return nil
		}, 4 * 3900 * time.Millisecond, nil},
		{"a Grace in another", 0, func(ctx context.Context) error {
			forever(ctx)
			return spindle.Grace(ctx, 20*time.Second, func(ctx context.Context) error {
				return errors.Join(works(time.Second, 0)(ctx), spindle.Sleep(ctx, 12*time.Second))
			})
		}, 20 * time.Second, nil},
		{"Grace before the run is cancelled", 0, func(ctx context.Context) error {
			return spindle.Grace(ctx, 20*time.Second, func(ctx context.Context) error { return spindle.Sleep(ctx, 12*time.Second) })
		}, 12 * time.Second, nil},
		{"a task of a nursery in Grace", 0, func(ctx context.Context) error {
			return spindle.Grace(ctx, 20*time.Second, func(ctx context.Context) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.Go(func(ctx context.Context) error { return spindle.Sleep(ctx, 12*time.Second) })
					return nil
				})
			})
		}, 12 * time.Second, nil},
		{"the owner of a nursery waits for a task in Grace", 0, func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(works(20*time.Second, 12*time.Second))
				return forever(ctx)
			})
		}, 12 * time.Second, nil},
		{"only the other task of the nursery asked", 0, func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.GoWith(spindle.TaskOptions{Name: "stubborn"}, stubborn)
				n.Go(works(20*time.Second, 12*time.Second))
				return nil
			})
		}, 12 * time.Second, []string{"stubborn"}},
		{"a shielded scope with a deadline", 0, func(ctx context.Context) error {
			return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				s.SetShield(true)
				s.SetDeadline(spindle.Now(ctx).Add(time.Hour))
				return spindle.Sleep(ctx, 12*time.Second)
			})
		}, 12 * time.Second, nil},
		{"Shield asks for no time", 0, func(ctx context.Context) error { return spindle.Shield(ctx, forever) }, 5 * time.Second, []string{"task"}},
		{"Shield in Grace", 0, func(ctx context.Context) error {
			return spindle.Grace(ctx, 20*time.Second, func(ctx context.Context) error { return spindle.Shield(ctx, stubborn) })
		}, 25 * time.Second, []string{"task"}},
	} {
		for where, run := range runsThatEnd {
			if where == "NurseryOn" && c.grace != 0 {
				continue // it takes no options
			}
			t.Run(c.name+", "+where, func(t *testing.T) {
				l, err := loop.New(loop.Internal().WithKernel(loop.Options{Watchdog: -1}, simkernel.NewKernel()))
				if err != nil {
					t.Fatal(err)
				}
				var end time.Duration
				ended := run(l, spindle.Options{Grace: c.grace}, func(ctx context.Context) error {
					defer func() { end = l.Time() }()
					return c.task(ctx)
				})
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				forced := stragglers(ended)
				if (end-c.end).Abs() > 100*time.Millisecond || !slices.Equal(forced, c.forced) {
					t.Errorf("ended after %v with %v, forced %v; want %v, %v", end, ended, forced, c.end, c.forced)
				}
			})
		}
	}
}

// runsThatEnd start a task on a loop, end its run, and return the run's error.
var runsThatEnd = map[string]func(l *loop.Loop, o spindle.Options, task func(context.Context) error) error{
	"Run": func(l *loop.Loop, o spindle.Options, task func(context.Context) error) error {
		o.On = l
		return o.Run(context.Background(), func(ctx context.Context) error {
			spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Name: "task"}, task)
			return spindle.Yield(ctx)
		})
	},
	"RunOn": func(l *loop.Loop, o spindle.Options, task func(context.Context) error) (err error) {
		o.RunOn(context.Background(), l, func(ctx context.Context) error {
			spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Name: "task"}, task)
			return spindle.Yield(ctx)
		}, func(ended error) {
			err = ended
			l.Stop()
		})
		ran := l.Run(context.Background())
		return errors.Join(ran, err)
	},
	"NurseryOn": func(l *loop.Loop, o spindle.Options, task func(context.Context) error) (err error) {
		n, end := spindle.NurseryOn(context.Background(), l)
		n.GoWith(spindle.TaskOptions{Name: "task", Eager: true}, task)
		l.CallSoon(func() {
			end(func(ended error) {
				err = ended
				l.Stop()
			})
		})
		ran := l.Run(context.Background())
		return errors.Join(ran, err)
	},
}

func TestRunOnRefusesALoop(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "RunOn with Options.On") {
			t.Errorf("recovered %s", text)
		}
	}()
	spindle.Options{On: l}.RunOn(t.Context(), l, forever, nil)
}
