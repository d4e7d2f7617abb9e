package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/simnet"
	"github.com/spindleloop/spindle/loop"
)

// Explore runs a world n times, with another seed each time, and fails the test
// with the first that fails. Setup adds hosts, programs, faults and checks to the
// world that it is given, and nothing else: it is called many times.
//
// A failure is told with its seed, a command that runs it again exactly, and a
// trace. If faults came by themselves (World.SetFaults), those are left out that
// the failure can do without: what is told is the shortest story that was found.
//
// The first few seeds are run twice, and compared: a program whose runs differ is
// told so, because then no seed means anything.
func Explore(tb testing.TB, n int, setup func(w *World)) {
	tb.Helper()
	if given := os.Getenv(seedVariable); given != "" {
		seed, only, err := parseReplay(given, os.Getenv(faultsVariable))
		if err != nil {
			tb.Fatal(err)
		}
		tb.Logf("sim: seed %d, as %s says", seed, seedVariable)
		play(tb, seed, only, setup).report(tb, nil)
		return
	}
	for seed := range uint64(n) {
		got := play(tb, seed, nil, setup)
		if got.err != nil {
			got.report(tb, func(only map[string]bool) *attempt { return play(tb, seed, only, setup) })
			return
		}
		if seed >= twice {
			continue
		}
		if again := play(tb, seed, nil, setup); again.w.Hash() != got.w.Hash() {
			tb.Fatalf("sim: two runs with seed %d differ; the program depends on something besides its seed:\n%s",
				seed, divergence(got.w.Trace(), again.w.Trace()))
		}
	}
}

// twice is how many seeds are run twice.
const twice = 3

// What a replay is told by.
const (
	seedVariable   = "SPINDLE_SEED"
	faultsVariable = "SPINDLE_FAULTS" // those that are to come, by number or name
)

func parseReplay(seed, faults string) (uint64, map[string]bool, error) {
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return 0, nil, fmt.Errorf("sim: %s: %w", seedVariable, err)
	}
	if faults == "" {
		return n, nil, nil
	}
	return n, setOf(strings.Split(faults, ",")), nil
}

func setOf(parts []string) map[string]bool {
	set := make(map[string]bool)
	for _, part := range parts {
		set[part] = true
	}
	return set
}

// attempt is a run of a seed.
type attempt struct {
	w   *World
	err error
}

func play(tb testing.TB, seed uint64, only map[string]bool, setup func(*World)) *attempt {
	a := &attempt{w: NewWorld(seed)}
	a.w.only = only
	exited := true
	left := inBubble(tb, seed, func(_ context.Context, b *bubble) {
		b.surround(a.w.core)
		setup(a.w)
		a.err = a.w.Run()
		exited = false
	})
	switch {
	case exited && tb.Skipped():
		tb.SkipNow()
	case exited:
		tb.FailNow()
	case left != nil && !errors.Is(a.err, simnet.ErrStray):
		a.err = errors.Join(a.err, left)
	}
	return a
}

// parts are the faults that were to come in a run, by number or name.
func (a *attempt) parts() (parts []string) {
	if a.w.faults == nil {
		return nil
	}
	for i := range a.w.script {
		parts = append(parts, strconv.Itoa(i))
	}
	parts = append(parts, a.w.faults.rates()...)
	return slices.DeleteFunc(parts, func(part string) bool { return !a.w.keeps(part) })
}

// report fails the test, if the run has failed, with the shortest story that
// again finds.
func (a *attempt) report(tb testing.TB, again func(only map[string]bool) *attempt) {
	tb.Helper()
	if a.err == nil {
		return
	}
	if again != nil {
		a = a.shrink(again)
	}
	var fault *spindle.PanicError
	if errors.As(a.err, &fault) && fault.Value == loop.ErrGoexit && tb.Failed() {
		tb.Log(a.story(tb.Name())) // the program has said why
		tb.FailNow()
	}
	tb.Fatal(a.story(tb.Name()))
}

// shrink leaves out faults for as long as the run fails without them: first many
// at a time, then one by one.
func (a *attempt) shrink(again func(only map[string]bool) *attempt) *attempt {
	parts := a.parts()
	for size := len(parts); size > 0 && len(parts) > 0; size /= 2 {
		for from := 0; from < len(parts); {
			left := slices.Concat(parts[:from], parts[min(from+size, len(parts)):])
			if b := again(setOf(left)); b.err != nil {
				a, parts = b, left
			} else {
				from += size
			}
		}
	}
	return a
}

// lastEvents is how much of a trace is told.
const lastEvents = 60

func (a *attempt) story(test string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "sim: seed %d fails after %v: %v\n", a.w.Seed(), a.w.Now(), a.err)
	var fault *spindle.PanicError
	if errors.As(a.err, &fault) {
		fmt.Fprintf(&b, "%s\n", fault.Stack)
	}
	fmt.Fprintf(&b, "again: %s\n", a.command(test))
	if a.w.faults != nil {
		fmt.Fprintf(&b, "faults that it needs:\n")
		for _, f := range a.w.Script() {
			fmt.Fprintln(&b, f)
		}
		for _, name := range a.w.faults.rates() {
			if a.w.keeps(name) {
				fmt.Fprintf(&b, "%12s  %s\n", "", name)
			}
		}
	}
	trace := a.w.Trace()
	if skipped := len(trace) - lastEvents; skipped > 0 {
		fmt.Fprintf(&b, "trace, without its first %d lines:\n", skipped)
		trace = trace[skipped:]
	} else {
		fmt.Fprintf(&b, "trace:\n")
	}
	b.WriteString(trace.String())
	return b.String()
}

// command is what runs it again.
func (a *attempt) command(test string) string {
	faults := ""
	if a.w.only != nil {
		faults = faultsVariable + "=" + cmp.Or(strings.Join(a.parts(), ","), "none") + " "
	}
	return fmt.Sprintf("%s=%d %sgo test -count=1 -run '^%s$' .", seedVariable, a.w.Seed(), faults, strings.ReplaceAll(test, "/", "$/^"))
}

// divergence is where two traces part.
func divergence(a, b Trace) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%s\n%sthen once\n%s\nand once\n%s", "…", a[max(0, i-5):i], a[i], b[i])
		}
	}
	return "their traces are the same as far as they go; the order in which programs ran is not"
}
