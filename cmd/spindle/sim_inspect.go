package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/sim"
)

// recordedMoments is about how many snapshots a recording has.
const recordedMoments = 600

// record runs the sampled world once more, with snapshots, and returns them.
func (s *search) record(ctx context.Context) (*inspect.Recording, error) {
	sampled := s.sampled
	parts := (&sim.Failure{World: sampled}).Parts()
	if len(parts) == 0 {
		parts = []string{"none"}
	}
	var again *sim.World
	once := sim.Search{First: sampled.Seed(), Runs: 1, Only: parts, Parallel: 1, Each: func(w *sim.World) {
		if again == nil { // the other runs compare and shrink
			again = w
		}
	}}
	setup, every := s.program.World(s.faults), intervalFor(sampled.Now())
	once.Find(ctx, func(w *sim.World) {
		setup(w)
		w.InspectEvery = every
	})
	switch {
	case again == nil:
		return nil, context.Cause(ctx)
	case again.Hash() != sampled.Hash():
		return nil, sim.ErrDiverges
	}
	recorded := again.Recording()
	if recorded == nil {
		return nil, errors.New("the run has ended before the first snapshot")
	}
	recorded.Title = fmt.Sprintf("%s, seed %d", s.program.Name, sampled.Seed())
	return recorded, nil
}

// intervalFor returns a round interval for the snapshots of a run.
func intervalFor(took time.Duration) time.Duration {
	least := took / recordedMoments
	for unit := time.Millisecond; ; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if n*unit >= least {
				return n * unit
			}
		}
	}
}

// serveRecording serves the page with the sampled run until the command is interrupted.
func (s *search) serveRecording(ctx context.Context) error {
	recorded, err := s.record(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	page, err := inspect.Serve("127.0.0.1:0", inspect.Options{Recording: recorded})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "seed %d at %d virtual times, until interrupted: http://%v/\n", s.sampled.Seed(), len(recorded.Snapshots), page.Addr())
	<-ctx.Done()
	return page.Close()
}
