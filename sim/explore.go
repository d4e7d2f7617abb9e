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

// Explore runs n worlds, each with a different seed, and fails the test with the
// first failure. The setup function adds hosts, programs, faults and checks to the
// world that it is given. It must do nothing else, because it is called many times.
//
// The report of a failure has the seed, a command that replays the failure exactly,
// a trace, and the name of an SVG file with a picture of it. With go test -artifacts
// the file is an artifact of the test; otherwise it is in the system's directory for
// temporary files. The failure is shrunk first: random faults (World.Faults) that
// it does not need are left out, and every World.Amount is lowered as far as
// possible. The replay command sets SPINDLE_SEED, which makes Explore run only that
// seed, and SPINDLE_FAULTS, the remaining faults and amounts (Failure.Parts).
//
// Explore runs the first few seeds twice and compares the runs. If they differ, it
// fails with ErrDiverges, because then a seed does not determine a run. It fails so too
// if a seed that has failed does not fail again.
//
// In a test, each world runs in a testing/synctest bubble, as in Test. Seeds are
// tried one after the other, because crypto/rand, which follows the seed, belongs to
// the whole process. In a test that has called t.Parallel, crypto/rand is left alone
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
		tb.Logf("sim: running only seed %d, set by %s", seed, seedVariable)
		if faults := os.Getenv(faultsVariable); faults != "" {
			s.Only = strings.Split(faults, ",")
		}
		w := NewWorld(seed)
		w.only = partsOf(s.Only)
		f := playIn(tb, w, setup)
		if f.checkParts(); f.Err != nil {
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

// The environment variables that make Explore replay one failure.
const (
	seedVariable   = "SPINDLE_SEED"
	faultsVariable = "SPINDLE_FAULTS" // Failure.Parts, separated by commas
)

// playIn runs a world in a bubble of the test.
func playIn(tb testing.TB, w *World, setup func(w *World)) *Failure {
	f := &Failure{World: w}
	exited := true // by Goexit, unless the run returns
	left := inBubble(tb, w.Seed(), func(_ context.Context, b *bubble) {
		b.surround(w.core)
		setup(w)
		f.Err = w.Run()
		exited = false
	})
	switch {
	case exited && left != nil: // the run did not return
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

// report fails the test with the failure's story.
func (f *Failure) report(tb testing.TB) {
	tb.Helper()
	story := f.Story(f.testCommand(tb.Name()))
	if errors.Is(f.Err, ErrDiverges) || errors.Is(f.Err, ErrUnknownPart) {
		tb.Fatalf("sim: seed %d: %v", f.World.Seed(), f.Err)
	}
	if len(f.World.hosts) > 0 && f.World.core.Events() > 0 {
		if file, err := f.draw(tb); err == nil {
			story += "picture: " + file + "\n"
		} else {
			story += fmt.Sprintf("there is no picture: %v\n", err)
		}
	}
	var fault *spindle.PanicError
	if errors.As(f.Err, &fault) && fault.Value == loop.ErrGoexit && tb.Failed() {
		tb.Log(story) // the program has already logged the reason
		tb.FailNow()
	}
	tb.Fatal(story)
}
