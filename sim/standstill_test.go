package sim_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

// spin yields for ever and ignores its cancellation.
func spin(ctx context.Context) error {
	for {
		_ = spindle.Yield(ctx)
	}
}

// busy are programs that keep running and let no time pass.
var busy = map[string]func(ctx context.Context) error{
	"a task": spin,
	"a task among others": func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
			n.GoWith(spindle.TaskOptions{Name: "spinner"}, spin)
			return nil
		})
	},
	"a task that returns when cancelled": func(ctx context.Context) error {
		for {
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
	},
	"a callback": func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		over := false
		defer func() { over = true }()
		var again func()
		again = func() {
			if !over {
				l.CallSoonPriority(loop.Low, again)
			}
		}
		again()
		return spindle.Sleep(ctx, time.Hour)
	},
}

// TestBusyLoopsAreReported: otherwise they would hang the run.
func TestBusyLoopsAreReported(t *testing.T) {
	short.Computes(t)
	brief := short.UnderRace || !short.Full() // four million callbacks take long
	for name, program := range busy {
		for how, run := range map[string]func(t *testing.T) error{
			"Run": func(t *testing.T) error { return sim.Run(t.Context(), program) },
			"World": func(*testing.T) error {
				w := sim.NewWorld(1)
				w.Host("sim").Go(program)
				return w.Run()
			},
		} {
			if brief && (name != "a task among others" || how != "World") {
				continue
			}
			t.Run(name+" in "+how, func(t *testing.T) {
				err := run(t)
				if !errors.Is(err, sim.ErrStandstill) || !strings.Contains(err.Error(), "host sim") {
					t.Fatal(err)
				}
				if name != "a callback" && !strings.Contains(err.Error(), "ready at standstill_test.go:") {
					t.Error("no line is named:", err)
				}
				if name == "a task among others" && (!strings.Contains(err.Error(), "spinner") || !strings.Contains(err.Error(), "(sim_test.spin)")) {
					t.Error("the task is not named:", err)
				}
			})
		}
	}
	if brief {
		return
	}
	t.Run("Test", func(t *testing.T) {
		said := inChild(t, func() { sim.Test(t, busy["a task among others"]) })
		if said != "" && (!strings.Contains(said, sim.ErrStandstill.Error()) || !strings.Contains(said, "spinner")) {
			t.Error(said)
		}
	})
	t.Run("Explore", func(t *testing.T) {
		said := inChild(t, func() { sim.Explore(t, 2, func(w *sim.World) { w.Host("busy").Go(busy["a task among others"]) }) })
		if said != "" && (!strings.Contains(said, sim.ErrStandstill.Error()) || !strings.Contains(said, "spinner") || !strings.Contains(said, "host busy")) {
			t.Error(said)
		}
	})
}

// TestBusyScriptsAreReported: a function of World.After that calls itself without a
// delay.
func TestBusyScriptsAreReported(t *testing.T) {
	short.Computes(t)
	w := sim.NewWorld(1)
	w.Host("host").Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Second) })
	var again func()
	again = func() { w.After(0, again) }
	again()
	if err := w.RunFor(time.Minute); !errors.Is(err, sim.ErrStandstill) {
		t.Error(err)
	}
}
