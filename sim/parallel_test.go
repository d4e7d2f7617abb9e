package sim_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/simsamples"
	"github.com/spindleloop/spindle/sim"
)

// TestParallelSearchFindsTheSame: the lowest seed that fails, with the same report, however
// many worlds run at the same time.
func TestParallelSearchFindsTheSame(t *testing.T) {
	late := func(w *sim.World) { // higher seeds fail sooner
		w.Host("host").Go(func(ctx context.Context) error {
			for range 300 - min(w.Seed(), 290) {
				if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
					return err
				}
			}
			if w.Seed() >= 40 {
				return errors.New("late")
			}
			return nil
		})
	}
	setups := map[string]func(*sim.World){"late": late}
	for _, name := range []string{"counter", "lock-unfenced"} {
		p, _ := simsamples.Find(name)
		setups[name] = p.World(p.Faults)
	}
	for name, setup := range setups {
		t.Run(name, func(t *testing.T) {
			want := sim.Search{Runs: 300, Parallel: 1}.Find(t.Context(), setup)
			for _, parallel := range []int{2, 5} {
				got := sim.Search{Runs: 300, Parallel: parallel}.Find(t.Context(), setup)
				if want == nil || got == nil || got.Runs != want.Runs || got.World.Hash() != want.World.Hash() ||
					got.Err.Error() != want.Err.Error() || !slices.Equal(got.Parts(), want.Parts()) {
					t.Errorf("%d at a time: got %+v, want %+v", parallel, got, want)
				}
			}
		})
	}
}

// TestParallelSearchEnds with its context, and with a panic of setup, which is raised again
// in the caller.
func TestParallelSearchEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var runs atomic.Int32
	f := sim.Search{Runs: 1 << 30, Parallel: 3}.Find(ctx, func(w *sim.World) {
		if runs.Add(1) == 100 {
			cancel()
		}
	})
	if n := runs.Load(); f != nil || n < 100 || n > 110 {
		t.Errorf("%+v after %d runs", f, n)
	}
	defer func() {
		fault, ok := recover().(*spindle.PanicError)
		if !ok || fault.Value != "boom" || !strings.Contains(string(fault.Stack), "parallel_test.go") {
			t.Errorf("%+v", fault)
		}
	}()
	sim.Search{Runs: 100, Parallel: 3}.Find(t.Context(), func(w *sim.World) {
		if w.Seed() == 50 {
			panic("boom")
		}
	})
}

// TestExploreInAParallelTest: seeds are tried at the same time.
func TestExploreInAParallelTest(t *testing.T) {
	t.Parallel()
	var seeds [20]atomic.Int32
	sim.Explore(t, len(seeds), func(w *sim.World) {
		seeds[w.Seed()].Add(1)
		w.Host("server").Serve(serveEcho(":7"))
		w.Host("client").Go(func(ctx context.Context) error {
			late, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			if err := ask(late, "server:7", "hello"); err != nil {
				return err
			}
			return spindle.Sleep(ctx, time.Hour)
		})
	})
	for seed := range seeds {
		if seeds[seed].Load() == 0 {
			t.Errorf("seed %d was left out", seed)
		}
	}
	t.Run("that fails", func(t *testing.T) {
		said := inChild(t, func() {
			t.Parallel()
			sim.Explore(t, 100, func(w *sim.World) {
				w.Host("host").Go(func(ctx context.Context) error {
					if w.Seed() >= 30 {
						t.Fatalf("fatal in seed %d", w.Seed())
					}
					return spindle.Sleep(ctx, time.Hour)
				})
			})
		})
		if said != "" && (!strings.Contains(said, "fatal in seed 30") || !strings.Contains(said, "sim: seed 30 fails")) {
			t.Error(said)
		}
	})
}
