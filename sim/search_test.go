package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

// overload is a world that fails if it has more than three clients and one of them has
// made more than five requests.
func overload(w *sim.World) {
	clients, asks := w.Amount("clients", 20), w.Amount("asks", 50)
	most := 0
	for i := range clients {
		w.Host(fmt.Sprint("client", i)).Go(func(ctx context.Context) error {
			for n := range asks {
				most = max(most, n+1)
				if most > 5 && clients > 3 {
					return errors.New("too much")
				}
				if err := spindle.Sleep(ctx, time.Second); err != nil {
					return err
				}
			}
			return nil
		})
	}
	w.Faults = sim.Faults{Loss: 0.1, PauseEvery: 10 * time.Second}
}

func TestAmountsShrink(t *testing.T) {
	runs := 0
	f := sim.Search{Runs: 5, Each: func(*sim.World) { runs++ }}.Find(t.Context(), overload)
	if f == nil || f.Runs != 1 || runs < 2 {
		t.Fatalf("%+v after %d runs", f, runs)
	}
	if got, want := f.Parts(), []string{"clients=4", "asks=6"}; !slices.Equal(got, want) {
		t.Errorf("it is shrunk to %q, want %q", got, want)
	}
	if f = (sim.Search{First: f.World.Seed(), Runs: 1, Only: f.Parts()}).Find(t.Context(), overload); f == nil {
		t.Error("the shrunk failure does not fail again")
	}
	if f = (sim.Search{Runs: 1, Only: []string{"clients=3"}}).Find(t.Context(), overload); f != nil {
		t.Error(f.Err)
	}
}

// TestDivergenceIsFound: programs depend on something besides their seed. The report says
// where two runs first differ, and what to use instead.
func TestDivergenceIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		program func(h *sim.Host, ctx context.Context, run int) error
		wants   []string
	}{
		"a note": {
			func(h *sim.Host, ctx context.Context, run int) error { h.Note("run %d", run); return nil },
			[]string{"run 1", "run 2", "event 1 of the trace", "in task main", "search_test.go:"},
		},
		"a sleep": {
			func(h *sim.Host, ctx context.Context, run int) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.GoWith(spindle.TaskOptions{Name: "other"}, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
					n.GoWith(spindle.TaskOptions{Name: "sleeper"}, func(ctx context.Context) error {
						if err := spindle.Sleep(ctx, time.Second); err != nil {
							return err
						}
						return spindle.Sleep(ctx, time.Duration(run)*time.Minute)
					})
					return nil
				})
			},
			[]string{"first difference: at 1s on host host", "in task sleeper (in Sleep at search_test.go:", "once it waits until 1m1s, and once it waits until 2m1s"},
		},
		"bytes": {
			func(h *sim.Host, ctx context.Context, run int) error {
				pc, err := stream.DialPacket(ctx, "udp", "peer:9")
				if err != nil {
					return err
				}
				defer pc.Close()
				_, err = pc.Write([]byte(strings.Repeat("x", run)))
				return err
			},
			[]string{"on host host", "in task main", "at search_test.go:", "sends 1 bytes", "sends 2 bytes"},
		},
		"an error": {
			func(h *sim.Host, ctx context.Context, run int) error {
				if run == 2 {
					return errors.New("the second run")
				}
				return nil
			},
			[]string{"the first run does not fail; the second fails with the error below", "host host: the second run"},
		},
		"an error of the first run": {
			func(h *sim.Host, ctx context.Context, run int) error {
				if run == 1 {
					return errors.New("the first run")
				}
				return spindle.Sleep(ctx, time.Second)
			},
			[]string{"the first run fails with the error below; the second does not fail", "in Sleep at search_test.go:", "host host: the first run"},
		},
		"an error of a later seed": {
			func(h *sim.Host, ctx context.Context, run int) error {
				if run == 7 { // the first three seeds are run twice
					return errors.New("the seventh run")
				}
				return nil
			},
			[]string{"the first run fails with the error below; the second does not fail", "host host: the seventh run"},
		},
		"fewer waits": {
			func(h *sim.Host, ctx context.Context, run int) error {
				for range run {
					if err := spindle.Sleep(ctx, time.Second); err != nil {
						return err
					}
				}
				return nil
			},
			[]string{"at 1s on host host", "in task main (in Sleep at search_test.go:", "once the run has ended, and once it waits until 2s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := 0
			f := sim.Search{Runs: 5, Parallel: 1}.Find(t.Context(), func(w *sim.World) {
				run++
				w.Host("peer")
				host := w.Host("host")
				host.Go(func(ctx context.Context) error { return test.program(host, ctx, run) })
			})
			if f == nil || !errors.Is(f.Err, sim.ErrDiverges) {
				t.Fatalf("%+v", f)
			}
			for _, want := range append(test.wants, "spindle.Rand(ctx)") {
				if !strings.Contains(f.Err.Error(), want) {
					t.Errorf("the report does not have %q:\n%v", want, f.Err)
				}
			}
		})
	}
}

// TestDivergenceOfHosts: the two runs have different numbers of hosts.
func TestDivergenceOfHosts(t *testing.T) {
	for _, hosts := range [][2]int{{1, 3}, {3, 1}} {
		for seed := range uint64(short.Of(10)) {
			run := 0
			f := sim.Search{First: seed, Runs: 1}.Find(t.Context(), func(w *sim.World) {
				for i := range hosts[run] {
					w.Host(fmt.Sprint("host", i)).Go(func(ctx context.Context) error {
						return spindle.Sleep(ctx, time.Duration(1+i)*time.Second)
					})
				}
				run++
			})
			if f == nil || !errors.Is(f.Err, sim.ErrDiverges) || !strings.Contains(f.Err.Error(), "first difference: at 0s on host host") {
				t.Errorf("%v, seed %d: %+v", hosts, seed, f)
			}
		}
	}
}

// TestSearchWithoutAFailure runs every seed, and the first ones twice.
func TestSearchWithoutAFailure(t *testing.T) {
	seeds := map[uint64]int{}
	f := sim.Search{First: 10, Runs: 5, Each: func(w *sim.World) { seeds[w.Seed()]++ }}.Find(t.Context(), func(w *sim.World) {
		w.Host("host").Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Second) })
	})
	if f != nil || len(seeds) != 5 || seeds[10] != 2 || seeds[14] != 1 {
		t.Errorf("%+v, %v", f, seeds)
	}
}

// TestUnknownPartsAreNamed: a list with a typing mistake is not taken for a run that does
// not fail.
func TestUnknownPartsAreNamed(t *testing.T) {
	setup := func(w *sim.World) { w.Amount("adds", 3) }
	for _, c := range []struct {
		only []string
		want string
	}{
		{[]string{"bogus", "loss"}, `"bogus"`},
		{[]string{"adds=x"}, `"adds=x" (want 1 to 3)`},
		{[]string{"subs=1"}, `"subs=1"`},
		{[]string{"0"}, `"0"`},
		{[]string{"adds=4"}, `"adds=4" (want 1 to 3)`},
		{[]string{"adds=0"}, `"adds=0" (want 1 to 3)`},
		{[]string{"adds=3"}, ""},
		{[]string{"adds=1", "none"}, ""},
		{[]string{"spurious"}, ""},
	} {
		f := sim.Search{Runs: 1, Only: c.only}.Find(t.Context(), setup)
		switch {
		case c.want == "" && f != nil:
			t.Errorf("%q: %v", c.only, f.Err)
		case c.want != "" && (f == nil || !errors.Is(f.Err, sim.ErrUnknownPart) || !strings.HasSuffix(f.Err.Error(), ": "+c.want)):
			t.Errorf("%q does not fail with %s: %v", c.only, c.want, f)
		}
	}
}

// TestAnAmountThatIsGiven is the same in every world of a search.
func TestAnAmountThatIsGiven(t *testing.T) {
	f := sim.Search{Runs: 100, Parallel: 1, Only: []string{"adds=30"}}.Find(t.Context(), func(w *sim.World) {
		if adds := w.Amount("adds", 50); adds != 30 {
			t.Errorf("seed %d: %d adds", w.Seed(), adds)
		}
	})
	if f != nil {
		t.Error(f.Err)
	}
}

// TestASeedMeansOneRun: it does not depend on the search that the seed is in.
func TestASeedMeansOneRun(t *testing.T) {
	type run struct {
		amount int
		hash   uint64
	}
	setup := func(w *sim.World) {
		rounds := w.Amount("rounds", 50)
		w.Host("host").Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Duration(rounds)*time.Second) })
	}
	const seeds = 100
	var alone [seeds]run
	small := 0
	for seed := range alone {
		w := sim.NewWorld(uint64(seed))
		setup(w)
		if err := w.Run(); err != nil {
			t.Fatal(err)
		}
		if alone[seed] = (run{w.Amount("rounds", 50), w.Hash()}); alone[seed].amount < 50 {
			small++
		}
	}
	if small < seeds/16 || small > seeds/4 {
		t.Errorf("%d of %d worlds are small", small, seeds)
	}
	for _, search := range []sim.Search{{Runs: seeds}, {Runs: 10 * seeds}, {Runs: 7}, {First: 12, Runs: 1}, {First: 50, Runs: 30}} {
		search.Parallel = 1
		search.Each = func(w *sim.World) {
			if w.Seed() >= seeds {
				return
			}
			if got, want := (run{w.Amount("rounds", 50), w.Hash()}), alone[w.Seed()]; got != want {
				t.Errorf("seed %d is %v in a search of %d from %d, and %v alone", w.Seed(), got, search.Runs, search.First, want)
			}
		}
		if f := search.Find(t.Context(), setup); f != nil {
			t.Error(f.Err)
		}
	}
}

// TestPartsRepeatTheRun, even if the failure needs none: Only must not be nil then.
func TestPartsRepeatTheRun(t *testing.T) {
	setup := func(w *sim.World) {
		w.Host("host").Go(func(ctx context.Context) error {
			if err := spindle.Sleep(ctx, time.Minute); err != nil {
				return err
			}
			return errors.New("always")
		})
		w.Faults = sim.Faults{PauseEvery: time.Second}
	}
	f := sim.Search{}.Find(t.Context(), setup)
	if f == nil || len(f.Parts()) != 0 {
		t.Fatalf("%+v", f)
	}
	again := sim.Search{First: f.World.Seed(), Runs: 1, Only: f.Parts(), Each: func(w *sim.World) {
		if faults := sim.Scheduled(w); len(faults) > 0 || w.Hash() != f.World.Hash() {
			t.Errorf("the run differs, with %d faults", len(faults))
		}
	}}.Find(t.Context(), setup)
	if again == nil {
		t.Error("it does not fail again")
	}
}

// TestAmountNames: the list of parts separates amounts by commas, and names from numbers by =.
func TestAmountNames(t *testing.T) {
	for _, name := range []string{"a,b", "a=b"} {
		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.HasPrefix(v, "sim: Amount: ") || !strings.Contains(v, name) {
					t.Errorf("%s: %s", name, v)
				}
			}()
			sim.NewWorld(1).Amount(name, 3)
		}()
	}
}

// TestFindEndsWithItsContext: shrinking ends too, and Find returns the failure as far as it
// is shrunk.
func TestFindEndsWithItsContext(t *testing.T) {
	for _, runs := range []int{1, 2, 3, 10} {
		ctx, cancel := context.WithCancel(t.Context())
		ran := 0
		f := sim.Search{Runs: 5, Parallel: 1, Each: func(*sim.World) {
			if ran++; ran == runs {
				cancel()
			}
		}}.Find(ctx, overload)
		if f == nil || f.Runs != 1 || ran != runs {
			t.Errorf("the context ends after %d runs, and Find after %d with %+v", runs, ran, f)
			continue
		}
		if f = (sim.Search{First: f.World.Seed(), Runs: 1, Only: f.Parts()}).Find(t.Context(), overload); f == nil {
			t.Errorf("after %d runs, the failure does not fail again", runs)
		}
	}
}

// entangled is a world that fails if c is paused. If b is paused too, it fails only if a
// is paused as well. So shrinking cannot remove the pause of a before that of b.
func entangled(w *sim.World) {
	for _, name := range []string{"a", "b", "c"} {
		w.Host(name).Go(func(ctx context.Context) error {
			if err := spindle.Sleep(ctx, 2*time.Second); err != nil {
				return err
			}
			paused := map[string]bool{}
			for _, fault := range sim.Scheduled(w) {
				paused[fault.What()[:1]] = true
			}
			if paused["c"] && (paused["a"] || !paused["b"]) {
				return errors.New("entangled")
			}
			return nil
		})
	}
	w.Faults = sim.Faults{For: time.Second, PauseEvery: 300 * time.Millisecond}
}

// TestShrinkingAgainFindsNothing: shrinking ends only when nothing more can be removed,
// even if removing one fault makes an earlier one removable.
func TestShrinkingAgainFindsNothing(t *testing.T) {
	found, seeds := 0, short.Seeds(200)
	for seed := range uint64(seeds) {
		f := sim.Search{First: seed, Runs: 1}.Find(t.Context(), entangled)
		if f == nil {
			continue
		}
		found++
		if needs := sim.Scheduled(f.World); len(needs) != 1 || !strings.HasPrefix(needs[0].What(), "c ") {
			t.Errorf("seed %d: it needs %v", seed, needs)
		}
	}
	if found < seeds/40 {
		t.Errorf("%d seeds fail", found)
	}
}
