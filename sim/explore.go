package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/loop"
)

// Explore runs n worlds, each with a different seed, and fails the test with the
// first failure. The setup function adds hosts, programs, faults and checks to the
// world that it is given. It must do nothing else, because it is called many times.
//
// The report of a failure has the seed, a command that replays the failure exactly,
// a trace, and the name of a page in HTML that shows it (Failure.Page). With
// go test -artifacts the page is an artifact of the test; otherwise it is in the system's
// directory for temporary files. The failure is shrunk first: random faults (World.Faults) that
// it does not need are left out, and every World.Amount is lowered as far as
// possible. The replay command sets SPINDLE_SEED, which makes Explore run only that
// seed, and SPINDLE_FAULTS, the remaining faults and amounts (Failure.Parts). If the test
// calls Explore several times, SPINDLE_EXPLORE is the number of the call that failed: the
// others do nothing then. SPINDLE_SEED alone runs what the seed ran before it was shrunk. A
// seed means one run, whatever n is.
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
	nth := countExplore(tb)
	if given := os.Getenv(seedVariable); given != "" {
		replay(tb, nth, given, setup)
		return
	}
	s := Search{Runs: n}
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
		f.report(tb, nth)
	}
}

// The environment variables that make Explore replay one failure.
const (
	seedVariable    = "SPINDLE_SEED"
	exploreVariable = "SPINDLE_EXPLORE" // which Explore of the test has failed, if not the first
	faultsVariable  = "SPINDLE_FAULTS"  // Failure.Parts, separated by commas
)

// replay runs one seed, in the nth exploration of the test, as the environment says.
func replay(tb testing.TB, nth int, given string, setup func(w *World)) {
	tb.Helper()
	seed, err := strconv.ParseUint(given, 10, 64)
	if err != nil {
		tb.Fatalf("sim: %s: %v", seedVariable, err)
	}
	w := NewWorld(seed)
	if faults := os.Getenv(faultsVariable); faults != "" {
		w.only = partsOf(strings.Split(faults, ","))
	}
	// Another exploration of the test may not have the parts that are given.
	which := os.Getenv(exploreVariable)
	if which == "" && w.only != nil {
		which = "1"
	}
	if which != "" && which != strconv.Itoa(nth) {
		return
	}
	tb.Logf("sim: running only seed %d, set by %s", seed, seedVariable)
	f := playIn(tb, w, setup)
	if f.checkParts(); f.Err != nil {
		f.again = func(seed uint64, only parts, prepare func(w *World)) *Failure {
			w := NewWorld(seed)
			w.only, w.prepare = only, prepare
			return playIn(tb, w, setup)
		}
		f.report(tb, nth)
	}
}

var (
	exploresMu sync.Mutex
	explores   = map[string]int{} // calls of Explore, by the name of the test; guarded by exploresMu
)

// countExplore returns how many times the test has called Explore, this time included.
func countExplore(tb testing.TB) int {
	name := tb.Name()
	exploresMu.Lock()
	defer exploresMu.Unlock()
	if explores[name]++; explores[name] == 1 {
		tb.Cleanup(func() {
			exploresMu.Lock()
			defer exploresMu.Unlock()
			delete(explores, name)
		})
	}
	return explores[name]
}

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
	case left != nil && !errors.Is(f.Err, simkernel.ErrStray) && !errors.Is(f.Err, left):
		f.Err = errors.Join(f.Err, left)
	}
	return f
}

// report fails the test with the story of the failure of its nth exploration.
func (f *Failure) report(tb testing.TB, nth int) {
	tb.Helper()
	again := f.testCommand(tb.Name(), nth)
	story := f.Story(again)
	if errors.Is(f.Err, ErrDiverges) || errors.Is(f.Err, ErrUnknownPart) {
		tb.Fatalf("sim: seed %d: %v", f.World.Seed(), f.Err)
	}
	if len(f.World.hosts) > 0 && f.World.core.Events() > 0 {
		if file, err := f.draw(tb, again); err == nil {
			story += "page: " + file + "\n"
		} else {
			story += fmt.Sprintf("there is no page: %v\n", err)
		}
	}
	var fault *spindle.PanicError
	if errors.As(f.Err, &fault) && fault.Value == loop.ErrGoexit && tb.Failed() {
		tb.Log(story) // the program has already logged the reason
		tb.FailNow()
	}
	tb.Fatal(story)
}
