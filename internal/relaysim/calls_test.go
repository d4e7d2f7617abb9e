package relaysim_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/relaysim"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/sim"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestASYNC03: cancellation and time-outs propagate deterministically through correlation
// waiters. Package mutants has three bugs that it finds.
func TestASYNC03(t *testing.T) {
	sim.Explore(t, short.Of(100/fewer), relaysim.Calls)
}

// TestASYNC03ManySeeds is TestASYNC03 with up to 2,000 seeds, on all processors.
func TestASYNC03ManySeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("TestASYNC03 is the short form")
	}
	if f := (sim.Search{Runs: short.Seeds(2000 / fewer)}).Find(t.Context(), relaysim.Calls); f != nil {
		t.Error(f.Story("SPINDLE_SEED=… go test -run '^TestASYNC03$' ./internal/relaysim"))
	}
}
