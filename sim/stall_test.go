package sim_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/sim"
)

// blockers block their loop, each in its own function, which the report must name, until
// over returns true.
var blockers = map[string]func(ctx context.Context, over func() bool) error{
	"blockInSleep": blockInSleep,
	"blockForEver": blockForEver,
	"blockInTask": func(ctx context.Context, over func() bool) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Minute) })
			n.Go(func(ctx context.Context) error { return blockInTask(ctx, over) })
			return nil
		})
	},
	"blockInCallback": func(ctx context.Context, over func() bool) error {
		spindle.LoopOf(ctx).CallSoon(func() { blockInCallback(over) })
		return spindle.Sleep(ctx, time.Second)
	},
	"blockInOffloadedWork": func(ctx context.Context, over func() bool) error {
		_, err := spindle.Blocking(ctx, func() (int, error) { return blockInOffloadedWork(over) })
		return err
	},
}

func blockInSleep(ctx context.Context, over func() bool) error {
	for !over() {
		time.Sleep(time.Second)
	}
	return ctx.Err()
}

func blockForEver(context.Context, func() bool) error { select {} }

func blockInTask(ctx context.Context, over func() bool) error {
	if err := spindle.Sleep(ctx, time.Second); err != nil {
		return err
	}
	var all sync.WaitGroup
	all.Go(func() {
		for !over() {
			time.Sleep(time.Second)
		}
	})
	all.Wait()
	return nil
}

func blockInCallback(over func() bool) {
	for !over() {
		time.Sleep(time.Second)
	}
}

func blockInOffloadedWork(over func() bool) (int, error) {
	for !over() {
		time.Sleep(time.Second)
	}
	return 0, nil
}

// TestBlockingTheLoopIsReported: the goroutine of a program blocks instead of waiting on its
// loop. In a bubble, that would move the clock of the standard library but not the loop's.
func TestBlockingTheLoopIsReported(t *testing.T) {
	for name, block := range blockers {
		program := func(ctx context.Context) error {
			blocked := false
			return block(ctx, func() (over bool) {
				over, blocked = blocked, true
				return over
			})
		}
		for how, run := range map[string]func(t *testing.T){
			"Test": func(t *testing.T) { sim.Test(t, program) },
			"Explore": func(t *testing.T) {
				sim.Explore(t, 2, func(w *sim.World) { w.Host("sim").Go(program) })
			},
		} {
			t.Run(name+" in "+how, func(t *testing.T) {
				said := inChild(t, func() { run(t) })
				for _, want := range []string{sim.ErrBlocked.Error() + " on host sim, at stall_test.go:", "(sim_test." + name + ")"} {
					if said != "" && !strings.Contains(said, want) {
						t.Errorf("the report does not have %q:\n%s", want, said)
					}
				}
			})
		}
	}
}

// TestBlockingTheLoopIsReportedOutsideOfTests: without a bubble, it is detected by real
// time. The programs block until it is, because a busy machine may need long.
func TestBlockingTheLoopIsReportedOutsideOfTests(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: each takes a second")
	}
	for name, block := range blockers {
		if name == "blockForEver" {
			continue // it would not return
		}
		program := func(ctx context.Context) error { return block(ctx, sim.IsReported(ctx)) }
		for how, run := range map[string]func() error{
			"Run": func() error { return sim.Run(t.Context(), program) },
			"World": func() error {
				w := sim.NewWorld(1)
				w.Host("sim").Go(program)
				return w.Run()
			},
		} {
			t.Run(name+" in "+how, func(t *testing.T) {
				t.Parallel()
				var blocked *simkernel.BlockedError
				if err := run(); !errors.Is(err, sim.ErrBlocked) || !errors.As(err, &blocked) ||
					blocked.Host != "sim" || !strings.HasSuffix(blocked.Line, "(sim_test."+name+")") {
					t.Errorf("%+v: %v", blocked, err)
				}
			})
		}
	}
}

// TestShortWaitsAreNotReported: a goroutine that gets no CPU may be found in a short wait.
// It is blocked if the next look finds it in the same place.
func TestShortWaitsAreNotReported(t *testing.T) {
	lock := &simkernel.BlockedError{State: "sync.Mutex.Lock", Line: "a.go:1"}
	other := &simkernel.BlockedError{State: "sync.Mutex.Lock", Line: "b.go:1"}
	read := &simkernel.BlockedError{State: "IO wait", Line: "a.go:1"}
	for _, tc := range []struct {
		finds  []*simkernel.BlockedError // by one look after the other, then nothing
		looks  []int
		report int
	}{
		{nil, []int{10, 20, 100, 200}, 0},
		{[]*simkernel.BlockedError{lock, lock}, []int{10, 20}, 20},
		{[]*simkernel.BlockedError{nil, lock, lock}, []int{10, 20, 30}, 30},
		{[]*simkernel.BlockedError{lock, nil, lock, lock}, []int{10, 20, 100, 110}, 110},
		{[]*simkernel.BlockedError{lock, other, read}, []int{10, 20, 30, 40, 100, 200}, 0},
	} {
		look := 0
		looks, report := sim.Looks(func() (b *simkernel.BlockedError) {
			if look < len(tc.finds) {
				b = tc.finds[look]
			}
			look++
			return b
		})
		if !slices.Equal(looks, tc.looks) || report != tc.report {
			t.Errorf("%v: looks at %v, reports at %d", tc.finds, looks, report)
		}
	}
}

// TestShortSleepsAreReportedOutsideOfTests: a sleep of less than the 200 ms after which
// other blocks are reported. A busy machine may look too late for one of them.
func TestShortSleepsAreReportedOutsideOfTests(t *testing.T) {
	err := sim.Run(t.Context(), func(ctx context.Context) error {
		for range 400 {
			sleepBriefly()
			if err := spindle.Sleep(ctx, time.Second); err != nil {
				return err
			}
		}
		return nil
	})
	var blocked *simkernel.BlockedError
	if !errors.As(err, &blocked) || !strings.HasSuffix(blocked.Line, "(sim_test.sleepBriefly)") {
		t.Errorf("%+v: %v", blocked, err)
	}
}

func sleepBriefly() { time.Sleep(60 * time.Millisecond) }

// TestABlockThatDoesNotEndIsPrinted: no error can be returned, so it is printed.
func TestABlockThatDoesNotEndIsPrinted(t *testing.T) {
	if os.Getenv(childSays) != "" {
		var mu sync.Mutex
		mu.Lock()
		sim.Test(t, func(context.Context) error { mu.Lock(); return nil })
		return
	}
	if testing.Short() {
		t.Skip("the child needs two seconds to notice")
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), childSays+"=1")
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(said).ReadString('\n')
	cmd.Process.Kill()
	cmd.Wait()
	if err != nil || !strings.HasPrefix(line, sim.ErrBlocked.Error()+" on host sim, at stall_test.go:") {
		t.Error(line, err)
	}
}

// TestClocksAgree: in a bubble the loop's clock and the standard library's never
// differ, whatever ends a wait.
func TestClocksAgree(t *testing.T) {
	agree := func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		if world, lib := l.Internal().Kernel().Wall(), time.Now(); !world.Equal(lib) {
			return fmt.Errorf("it is %v on the loop and %v in the library", world, lib)
		}
		return nil
	}
	program := func(ctx context.Context) error {
		for range 20 {
			late, cancel := context.WithTimeout(ctx, 700*time.Millisecond)
			spindle.Sleep(late, time.Second)
			cancel()
			if err := agree(ctx); err != nil {
				return err
			}
			if err := spindle.Sleep(ctx, time.Duration(spindle.LoopOf(ctx).Internal().Kernel().Uint64()%1e9)); err != nil {
				return err
			}
			if err := agree(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	sim.Test(t, program)
	sim.Explore(t, 5, func(w *sim.World) {
		w.Host("a").Go(program)
		w.Host("b").Go(program)
	})
}

// TestShortSleepsAreReported: sleeps end at the same time as the alarm that detects them,
// and it is a matter of luck which comes first.
func TestShortSleepsAreReported(t *testing.T) {
	for name, sleeps := range map[string][]time.Duration{
		"one":                          {1},
		"a long one after a short one": {1, time.Hour},
		"several":                      {1, 1, 2, 3, 1, 5},
	} {
		t.Run(name, func(t *testing.T) {
			for how, run := range map[string]func(t *testing.T, program func(ctx context.Context) error){
				"Test": func(t *testing.T, program func(ctx context.Context) error) { sim.Test(t, program) },
				"Explore": func(t *testing.T, program func(ctx context.Context) error) {
					sim.Explore(t, 1, func(w *sim.World) {
						time.Sleep(time.Hour) // setup may sleep
						w.Host("host").Go(program)
					})
				},
			} {
				t.Run(how, func(t *testing.T) {
					said := inChild(t, func() {
						run(t, func(ctx context.Context) error {
							for _, d := range sleeps {
								time.Sleep(d)
							}
							return nil
						})
					})
					if said != "" && !strings.Contains(said, "sim: a program blocks its loop") {
						t.Error(said)
					}
				})
			}
		})
	}
}
