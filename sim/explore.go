package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// Explore runs a world n times, with another seed each time, and fails the test
// with the first that fails. Setup adds hosts, programs, faults and checks to the
// world that it is given, and nothing else: it is called many times.
//
// A failure is told with its seed, a command that runs it again exactly, a trace, and
// the name of a file with a picture of it (SVG): an artifact of the test with go test
// -artifacts, and otherwise in the system's directory for temporary files. If faults came by themselves (World.SetFaults), those are left out that
// the failure can do without, and every World.Amount is lowered as far as it
// goes: what is told is the shortest story that was found. The command sets
// SPINDLE_SEED, with which Explore runs that seed and no other, and SPINDLE_FAULTS,
// the faults and amounts that are left (Failure.Parts).
//
// The first few seeds are run twice, and compared: a program whose runs differ is
// told so, because then no seed means anything.
//
// In a test it runs each world in a bubble of testing/synctest, as Test does. One seed
// is tried after the other, because crypto/rand, which follows the seed, belongs to
// the whole process. In a test that has called t.Parallel, crypto/rand is left alone,
// and seeds are tried on all processors: setup is called on several goroutines, and
// worlds must not share variables.
func Explore(tb testing.TB, n int, setup func(w *World)) {
	tb.Helper()
	s := Search{Runs: n}
	if given := os.Getenv(seedVariable); given != "" {
		seed, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			tb.Fatalf("sim: %s: %v", seedVariable, err)
		}
		tb.Logf("sim: seed %d, as %s says", seed, seedVariable)
		if faults := os.Getenv(faultsVariable); faults != "" {
			s.Only = strings.Split(faults, ",")
		}
		w := NewWorld(seed)
		w.only = partsOf(s.Only)
		if f := playIn(tb, w, setup); f.Err != nil {
			f.report(tb)
		}
		return
	}
	seeded := false
	play := func(w *World) *Failure {
		f := playIn(tb, w, setup)
		seeded = seeded || w.core.Seeded()
		return f
	}
	parallel := func() int {
		if _, ok := tb.(*testing.T); !ok || seeded {
			return 1
		}
		play = func(w *World) *Failure { return playIn(tb, w, setup) }
		return runtime.GOMAXPROCS(0)
	}
	exit := func() {
		if tb.Skipped() {
			tb.SkipNow()
		}
		tb.FailNow()
	}
	if f := s.find(context.Background(), func(w *World) *Failure { return play(w) }, parallel, exit); f != nil {
		f.report(tb)
	}
}

// What a replay is told by.
const (
	seedVariable   = "SPINDLE_SEED"
	faultsVariable = "SPINDLE_FAULTS" // Failure.Parts, with commas
)

// playIn is play for a test.
func playIn(tb testing.TB, w *World, setup func(w *World)) *Failure {
	f := &Failure{World: w}
	exited := true // until it has returned
	left := inBubble(tb, w.Seed(), func(_ context.Context, b *bubble) {
		b.surround(w.core)
		setup(w)
		f.Err = w.Run()
		exited = false
	})
	switch {
	case exited && left != nil: // it did not come to an end at all
		f.Err = left
	case exited && tb.Skipped():
		tb.SkipNow()
	case exited:
		tb.FailNow()
	case left != nil && !errors.Is(f.Err, ErrStray) && !errors.Is(f.Err, left):
		f.Err = errors.Join(f.Err, left)
	}
	return f
}

// report fails the test.
func (f *Failure) report(tb testing.TB) {
	tb.Helper()
	story := f.Story(f.testCommand(tb.Name()))
	if errors.Is(f.Err, ErrDiverges) || errors.Is(f.Err, ErrUnknownPart) {
		tb.Fatalf("sim: seed %d: %v", f.World.Seed(), f.Err)
	}
	if len(f.World.hosts) > 0 && f.World.Events() > 0 {
		if file, err := f.draw(tb); err == nil {
			story += "picture: " + file + "\n"
		} else {
			story += fmt.Sprintf("there is no picture: %v\n", err)
		}
	}
	var fault *spindle.PanicError
	if errors.As(f.Err, &fault) && fault.Value == loop.ErrGoexit && tb.Failed() {
		tb.Log(story) // the program has said why
		tb.FailNow()
	}
	tb.Fatal(story)
}
