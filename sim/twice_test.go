package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// undetermined has programs that depend on something besides their seed. Each is the
// function that the report must blame.
var undetermined = map[string]func(ctx context.Context) error{
	"random numbers": sleepsAtRandom,
	"random numbers in a task": func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
			n.Go(sleepsAtRandom)
			return nil
		})
	},
	"the order of a map": func(ctx context.Context) error {
		set := map[int]bool{}
		for i := range 1000 {
			set[i] = true
		}
		length := time.Duration(1)
		for range 4 { // two runs have the same first key in one of a thousand
			for i := range set {
				length = length*1000 + time.Duration(i)
				break
			}
		}
		return spindle.Sleep(ctx, length)
	},
}

func sleepsAtRandom(ctx context.Context) error {
	return spindle.Sleep(ctx, 1+time.Duration(rand.Int64N(int64(time.Hour))))
}

// TestRunsAreComparedOnRequest: with SPINDLE_TWICE, Test and Run name the line at which two
// runs of a program first differ.
func TestRunsAreComparedOnRequest(t *testing.T) {
	blamed := func(t *testing.T, report string) {
		t.Helper()
		for _, want := range []string{sim.ErrDiverges.Error(), "first difference: at 0s on host sim", "in Sleep at twice_test.go:", "spindle.Rand(ctx)"} {
			if !strings.Contains(report, want) {
				t.Errorf("the report does not have %q:\n%s", want, report)
			}
		}
	}
	for name, program := range undetermined {
		t.Run(name+" in Run", func(t *testing.T) {
			t.Setenv("SPINDLE_TWICE", "1")
			blamed(t, fmt.Sprint(sim.Run(t.Context(), program)))
		})
		t.Run(name+" in Test", func(t *testing.T) {
			said := inChild(t, func() {
				t.Setenv("SPINDLE_TWICE", "1")
				sim.Test(t, program)
			})
			if said != "" {
				blamed(t, said)
			}
		})
	}
	t.Run("the clock of the machine in Run", func(t *testing.T) {
		t.Setenv("SPINDLE_TWICE", "1")
		blamed(t, fmt.Sprint(sim.Run(t.Context(), func(ctx context.Context) error {
			return spindle.Sleep(ctx, time.Duration(time.Now().UnixNano()%int64(time.Hour)))
		})))
	})
}

// TestSecondRunFails: a variable outlives the first run.
func TestSecondRunFails(t *testing.T) {
	runs := 0
	program := func(ctx context.Context) error {
		if runs++; runs == 2 {
			return errors.New("the second run")
		}
		return spindle.Sleep(ctx, time.Second)
	}
	t.Run("Run", func(t *testing.T) {
		t.Setenv("SPINDLE_TWICE", "1")
		err := sim.Run(t.Context(), program)
		if !errors.Is(err, sim.ErrDiverges) || !strings.Contains(err.Error(), "the second run") {
			t.Error(err)
		}
	})
	for name, program := range map[string]func(t *testing.T) func(context.Context) error{
		"Test":        func(*testing.T) func(context.Context) error { return program },
		"by t.Errorf": func(t *testing.T) func(context.Context) error { return reportsSecond(t, t.Errorf) },
		"by t.Fatalf": func(t *testing.T) func(context.Context) error { return reportsSecond(t, t.Fatalf) },
	} {
		t.Run(name, func(t *testing.T) {
			runs = 0
			said := inChild(t, func() {
				t.Setenv("SPINDLE_TWICE", "1")
				sim.Test(t, program(t))
			})
			if said != "" && (!strings.Contains(said, "the second run") || !strings.Contains(said, "spindle.Rand(ctx)")) {
				t.Error(said)
			}
		})
	}
}

func reportsSecond(t *testing.T, report func(format string, args ...any)) func(context.Context) error {
	runs := 0
	return func(ctx context.Context) error {
		if runs++; runs == 2 {
			report("the second run of %s", t.Name())
		}
		return spindle.Sleep(ctx, time.Second)
	}
}

// TestDeterminedProgramsRunTwice: a program that follows its seed passes.
func TestDeterminedProgramsRunTwice(t *testing.T) {
	t.Setenv("SPINDLE_TWICE", "1")
	runs := 0
	program := func(ctx context.Context) error {
		runs++
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for range 10 {
				n.Go(func(ctx context.Context) error {
					return spindle.Sleep(ctx, time.Duration(spindle.Rand(ctx).IntN(1000))*time.Millisecond)
				})
			}
			if late, err := spindle.MoveOnAfter(ctx, time.Second, serveEcho(":7")); !late {
				return err
			}
			return nil
		})
	}
	sim.Test(t, program)
	if err := sim.Run(t.Context(), program); err != nil || runs != 4 {
		t.Errorf("%v after %d runs", err, runs)
	}
}
