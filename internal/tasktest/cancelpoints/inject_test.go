package cancelpoints_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/loop"
)

// program is a small program with scopes that are cancelled at some moment. It always runs
// to its end, and then check reports what is wrong.
type program struct {
	name    string
	targets int      // how many scopes of it are to be cancelled
	waits   []string // must each have been cancelled once
	tidy    bool     // what is cancelled may take time to clean up
	play    func(st *stage) (check func() error)
}

// stage is the state of one run of a program.
type stage struct {
	*spindle.Nursery
	targets []target
	begun   int // tasks and blocks of code that count theirs by task
	ended   int
}

// target is a scope that may be cancelled: not yet there, open, or gone.
type target struct {
	scope    *spindle.Scope
	canceled time.Duration // when, if it was
	left     time.Duration
	gone     bool
}

const never = 1 << 62

// target returns a function that runs fn in scope number i.
func (st *stage) target(i int, fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		defer func() { st.targets[i].gone, st.targets[i].left = true, spindle.LoopOf(ctx).Time() }()
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			st.targets[i] = target{scope: s, canceled: never}
			return fn(ctx)
		})
	}
}

// task returns fn with counts of the calls that have begun and ended.
func (st *stage) task(fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		st.begun++
		defer func() { st.ended++ }()
		return fn(ctx)
	}
}

// moment is when a program is cancelled: after all tasks have waited for an outside event
// the given number of times, and so many turns later. The lane decides whether that is
// before the other tasks of the turn, among them, or after them.
type moment struct {
	target, event, turn int
	lane                loop.Priority
}

// world is a simulated kernel that counts how often it ran offloaded work or advanced the
// time.
type world struct {
	kernel.Poller
	events int
	each   func(event int)
}

func (w *world) Wait(events []kernel.Event, timeout time.Duration) (int, error) {
	n, err := w.Poller.Wait(events, timeout)
	if timeout != 0 && err == nil {
		w.events++
		w.each(w.events)
	}
	return n, err
}

// hit is what one cancellation has found.
type hit struct {
	waits []string // that it cancelled
	quiet bool     // no task was ready: the next moment is after an event
	over  bool     // the target was gone
}

// TestCancelAtEveryWait runs each program many times, and cancels one of its scopes at the
// first moment, at the second, and so on, until the scope has ended before that moment. Nothing is lost, and no task
// is left or waits for ever, which would be a deadlock.
func TestCancelAtEveryWait(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			met := map[string]bool{}
			for target := range p.targets {
				for _, lane := range []loop.Priority{loop.High, loop.Normal, loop.Low} {
					cancelEverywhere(t, p, moment{target: target, lane: lane}, met)
				}
			}
			for _, want := range p.waits {
				if !met[want] {
					t.Errorf("no wait for %s was cancelled, only %v", want, slices.Sorted(maps.Keys(met)))
				}
			}
		})
	}
}

func cancelEverywhere(t *testing.T, p program, m moment, met map[string]bool) {
	for ; ; m.event++ {
		for m.turn = 0; ; m.turn++ {
			h, err := playWith(t.Context(), p, m)
			if err != nil {
				t.Fatalf("cancelled at %+v, in %q: %v", m, h.waits, err)
			}
			for _, what := range h.waits {
				met[what] = true
			}
			if h.over {
				return
			}
			if h.quiet {
				break
			}
		}
	}
}

// playWith runs p once and cancels its target at m.
func playWith(ctx context.Context, p program, m moment) (h hit, err error) {
	k := simkernel.NewKernel()
	var wanted spindle.Lot
	k.Poller = &world{Poller: k.Poller, each: func(event int) {
		if event == m.event {
			wanted.Wake(1)
		}
	}}
	o := spindle.Options{Loop: loop.Internal().WithKernel(loop.Options{Watchdog: -1}, k)}
	h.over = true // unless its moment comes
	err = o.Run(ctx, func(ctx context.Context) error {
		st := &stage{targets: make([]target, p.targets)}
		spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Name: "injector", Priority: m.lane}, func(ctx context.Context) error {
			if m.event > 0 {
				if err := wanted.Wait(ctx, "moment"); err != nil {
					return err
				}
			}
			for range m.turn {
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			h = interfere(ctx, &st.targets[m.target])
			return nil
		})
		var check func() error
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			st.Nursery = n
			check = p.play(st)
			return nil
		})
		if err != nil {
			return err
		}
		return errors.Join(check(), st.check(ctx, p.tidy))
	})
	return h, err
}

// interfere cancels the target and returns what it has cancelled.
func interfere(ctx context.Context, at *target) (h hit) {
	before := spindle.TasksOf(ctx)
	h.quiet = !slices.ContainsFunc(before, func(task spindle.TaskInfo) bool { return task.State == "ready" || task.State == "fresh" })
	h.over = at.gone
	if at.scope == nil || at.gone {
		return h
	}
	at.scope.Cancel(nil)
	at.canceled = spindle.LoopOf(ctx).Time()
	for i, task := range spindle.TasksOf(ctx) {
		if task.Canceled && !before[i].Canceled && before[i].State == "waiting" {
			h.waits = append(h.waits, before[i].WaitsFor)
		}
	}
	return h
}

// check reports what a program has left behind, except for the tasks of the test itself.
func (st *stage) check(ctx context.Context, tidy bool) error {
	for i, at := range st.targets {
		if at.left > at.canceled && !tidy {
			return fmt.Errorf("scope %d was cancelled at %v and left at %v", i, at.canceled, at.left)
		}
	}
	if st.begun != st.ended {
		return fmt.Errorf("%d tasks began, %d ended", st.begun, st.ended)
	}
	for _, task := range spindle.TasksOf(ctx) {
		if task.Name != "main" && task.Name != "injector" {
			return fmt.Errorf("left behind: %+v", task)
		}
	}
	if s := spindle.LoopOf(ctx).Stats(); s.Timers != 0 || s.Jobs != 0 {
		return fmt.Errorf("left in the loop: %+v", s)
	}
	return nil
}
