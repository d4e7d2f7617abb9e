package simsamples_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/simsamples"
	"github.com/spindleloop/spindle/sim"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestPrograms: what is sound holds under its trouble, and what has a bug is found
// out, with a story that can be read.
func TestPrograms(t *testing.T) {
	for _, p := range simsamples.Programs {
		t.Run(p.Name, func(t *testing.T) {
			if p.Bug == "" {
				sim.Explore(t, 100, p.World(p.Faults))
				return
			}
			f := sim.Search{Runs: 500}.Find(t.Context(), p.World(p.Faults))
			if f == nil {
				t.Fatal("it was not found:", p.Bug)
			}
			t.Logf("%d seeds, %d faults and amounts %q, %d events:\n%s", f.Runs, len(f.World.Script()), f.Parts(), f.World.Events(), f.Story(""))
			if faults := len(f.World.Script()); faults > 3 || f.World.Events() > 200 {
				t.Errorf("its story has %d faults and %d events", faults, f.World.Events())
			}
		})
	}
}

func TestFind(t *testing.T) {
	if _, ok := simsamples.Find("nothing"); ok {
		t.Error("there is nothing")
	}
	if p, ok := simsamples.Find("lock"); !ok || p.Name != "lock" {
		t.Error(p)
	}
}
