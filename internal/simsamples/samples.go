// Package simsamples has sample programs for the simulator: services on a few hosts, with
// invariants. Some programs keep their invariants, and some have a bug for the simulator
// to find. The command and tests run them.
package simsamples

import (
	"time"

	"github.com/spindleloop/spindle/sim"
)

// Program is a sample program.
type Program struct {
	Name    string
	Summary string
	Faults  sim.Faults         // the default faults
	Setup   func(w *sim.World) // makes the world, without faults
	Bug     string             // the bug; "" if there is none
}

// World returns a setup function for sim.Explore and sim.Search with the given faults.
func (p Program) World(f sim.Faults) func(w *sim.World) {
	return func(w *sim.World) {
		p.Setup(w)
		w.Faults = f
	}
}

// Programs are all sample programs.
var Programs = []Program{
	{
		Name:    "echo",
		Summary: "an echo server and clients that retry while the network fails",
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
		Bug:     "a message that is sent twice is counted twice",
	},
	{
		Name:    "counter-fixed",
		Summary: "the same without the bug",
		Faults:  counterFaults,
		Setup:   counter(true),
	},
	{
		Name:    "lock",
		Summary: "a lock with leases, and a store that checks the number of the lease",
		Faults:  lockFaults,
		Setup:   lock(true),
	},
	{
		Name:    "lock-unfenced",
		Summary: "the same with a store that checks nothing, which is a bug",
		Faults:  lockFaults,
		Setup:   lock(false),
		Bug:     "a worker that was paused for longer than its lease writes although the lock was given away",
	},
}

// Find returns the program with the given name.
func Find(name string) (Program, bool) {
	for _, p := range Programs {
		if p.Name == name {
			return p, true
		}
	}
	return Program{}, false
}
