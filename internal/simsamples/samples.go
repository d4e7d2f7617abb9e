// Package simsamples has programs for the simulator to show itself with: services on a
// few hosts, with what must hold for them. Some hold it and some have a bug that
// was put there to be found. The command runs them, and so do tests.
package simsamples

import (
	"time"

	"github.com/spindleloop/spindle/sim"
)

// Program is a world for many seeds.
type Program struct {
	Name    string
	Summary string
	Faults  sim.Faults         // the trouble that it is made for
	Setup   func(w *sim.World) // without the trouble
	Bug     string             // what was planted in it; "" if nothing was
}

// World is what sim.Explore and sim.Search want: the program under some trouble.
func (p Program) World(f sim.Faults) func(w *sim.World) {
	return func(w *sim.World) {
		p.Setup(w)
		w.Faults = f
	}
}

// Programs are all there are.
var Programs = []Program{
	{
		Name:    "echo",
		Summary: "an echo server and clients that insist, while the network falls apart",
		Faults: sim.Faults{
			For: 20 * time.Second, Lasting: 2 * time.Second, Loss: 0.01, Dribble: 0.1,
			PartitionEvery: 3 * time.Second, CrashEvery: 8 * time.Second, PauseEvery: 8 * time.Second,
		},
		Setup: echo,
	},
	{
		Name:    "counter",
		Summary: "a counter on three replicas, which has a bug",
		Faults:  counterFaults,
		Setup:   counter(false),
		Bug:     "a message that is sent again is counted again",
	},
	{
		Name:    "counter-mended",
		Summary: "the same without the bug",
		Faults:  counterFaults,
		Setup:   counter(true),
	},
	{
		Name:    "lock",
		Summary: "a lock with leases, and a store that wants to see the number of the lease",
		Faults:  lockFaults,
		Setup:   lock(true),
	},
	{
		Name:    "lock-unfenced",
		Summary: "the same with a store that takes everybody's word, which is a bug",
		Faults:  lockFaults,
		Setup:   lock(false),
		Bug:     "who was paused for longer than the lease writes as if the lock were still his",
	},
}

// Find is the program of a name.
func Find(name string) (Program, bool) {
	for _, p := range Programs {
		if p.Name == name {
			return p, true
		}
	}
	return Program{}, false
}
