package sim

import (
	"context"
	"errors"
)

// shorter looks for a failure with fewer events than f: it tries the next Shortest of n seeds.
func (s Search) shorter(ctx context.Context, f *Failure, n int, world func(i int, only parts) *World, run player) *Failure {
	for i, end := f.Runs, min(f.Runs+s.Shortest, n); i < end && ctx.Err() == nil; i++ {
		g := run(world(i, partsOf(s.Only)))
		if g.Err == nil {
			continue
		}
		g.Runs = i + 1
		if g = s.smallest(ctx, g, world, run); !errors.Is(g.Err, ErrDiverges) && g.World.core.Events() < f.World.core.Events() {
			f = g
		}
	}
	return f
}

// smallest runs a failure again, to see that it fails again, and shrinks it.
func (s Search) smallest(ctx context.Context, f *Failure, world func(i int, only parts) *World, run player) *Failure {
	runs := f.Runs
	again := world(runs-1, partsOf(s.Only))
	again.core.Record(f.World.core.Journal())
	if g := f.vanishes(run(again)); g != nil {
		g.Runs = runs
		return g
	}
	f = f.shrink(ctx, func(only parts) *Failure { return run(world(runs-1, only)) })
	f.Runs = runs
	return f
}
