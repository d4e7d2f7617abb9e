package simsamples_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/simsamples"
	"github.com/spindleloop/spindle/sim"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestPrograms: correct programs keep their invariants under faults, and bugs are found and
// reported with few events.
func TestPrograms(t *testing.T) {
	for _, p := range simsamples.Programs {
		t.Run(p.Name, func(t *testing.T) {
			if p.Bug == "" {
				sim.Explore(t, short.Of(100), p.World(p.Faults))
				return
			}
			f := sim.Search{Runs: 500}.Find(t.Context(), p.World(p.Faults))
			if f == nil {
				t.Fatal("the bug was not found:", p.Bug)
			}
			t.Logf("%d seeds, faults and amounts %q, %d events:\n%s", f.Runs, f.Parts(), len(f.World.Trace()), f.Story(""))
			if parts := len(f.Parts()); parts > 6 || len(f.World.Trace()) > 200 {
				t.Errorf("its story has %d faults and amounts and %d events", parts, len(f.World.Trace()))
			}
		})
	}
}

func TestFind(t *testing.T) {
	if _, ok := simsamples.Find("nothing"); ok {
		t.Error("found a program that does not exist")
	}
	if p, ok := simsamples.Find("lock"); !ok || p.Name != "lock" {
		t.Error(p)
	}
}
