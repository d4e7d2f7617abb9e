package main

import (
	"context"
	"iter"
	"runtime"
	"sync"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// inTask runs fn as a task and returns how long it took.
func inTask(ctx context.Context, fn func(context.Context) error) (time.Duration, error) {
	var took time.Duration
	o := spindle.Options{Loop: loop.Options{OnBlocked: func(loop.Blocked) {}}}
	err := spindle.RunWith(ctx, o, func(ctx context.Context) error {
		start := time.Now()
		err := fn(ctx)
		took = time.Since(start)
		return err
	})
	return took, err
}

// pair measures ours and Go's in turns, n things a round, and sets both keys to
// the medians, in nanoseconds for each.
func (s *session) pair(ctx context.Context, n int, ourKey string, ours func(context.Context) error, goKey string, gos func()) error {
	var a, b []float64
	for range s.rounds {
		if err := s.round(ctx); err != nil {
			return err
		}
		took, err := inTask(ctx, ours)
		if err != nil {
			return err
		}
		a = append(a, float64(took.Nanoseconds())/float64(n))
		start := time.Now()
		gos()
		b = append(b, float64(time.Since(start).Nanoseconds())/float64(n))
	}
	s.set(ourKey, percentile(a, 50))
	s.set(goKey, percentile(b, 50))
	return nil
}

// benchSwitch has two tasks yield to each other, so that each yield is a switch,
// beside the bare coroutine of the standard library, there and back.
func benchSwitch(ctx context.Context, s *session) error {
	yields := func(ctx context.Context) error {
		for range s.switches / 2 {
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	return s.pair(ctx, s.switches, "switch_ns", func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(yields)
			n.Go(yields)
			return nil
		})
	}, "pull_ns", func() {
		next, stop := iter.Pull(func(yield func(int) bool) {
			for yield(0) {
			}
		})
		defer stop()
		for range s.switches {
			next()
		}
	})
}

// benchSpawn starts one task after the other and lets each run to its end, beside
// goroutines that are started and joined.
func benchSpawn(ctx context.Context, s *session) error {
	nop := func(context.Context) error { return nil }
	err := s.pair(ctx, s.spawns, "spawn_ns", func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for range s.spawns {
				n.Go(nop)
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}, "goroutine_ns", func() {
		for range s.spawns {
			var one sync.WaitGroup
			one.Go(nothing)
			one.Wait()
		}
	})
	if err != nil {
		return err
	}
	return parkedBytes(ctx, s)
}

// parkedBytes is what a task that waits takes: stack and heap, of many.
func parkedBytes(ctx context.Context, s *session) error {
	_, err := inTask(ctx, func(ctx context.Context) error {
		var lot spindle.Lot
		before := memoryInUse()
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for range s.parked {
				n.Go(func(ctx context.Context) error { return lot.Wait(ctx, "the end") })
			}
			for range 2 { // all of them wait now
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			s.set("parked_bytes", float64(memoryInUse()-before)/float64(s.parked))
			lot.Wake(s.parked)
			return nil
		})
	})
	return err
}

func memoryInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// benchGather gathers ten at a time.
func benchGather(ctx context.Context, s *session) error {
	const each = 10
	fns := make([]func(context.Context) (int, error), each)
	for i := range fns {
		fns[i] = func(context.Context) (int, error) { return i, nil }
	}
	return s.pair(ctx, s.spawns, "gather_ns", func(ctx context.Context) error {
		for range s.spawns / each {
			if _, err := spindle.Gather(ctx, fns...); err != nil {
				return err
			}
		}
		return nil
	}, "go_gather_ns", func() {
		for range s.spawns / each {
			var all sync.WaitGroup
			results := make([]int, each)
			for i := range results {
				all.Go(func() { results[i] = i })
			}
			all.Wait()
		}
	})
}
