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

// inTask runs fn as a task and returns its duration.
func inTask(ctx context.Context, fn func(context.Context) error) (time.Duration, error) {
	var took time.Duration
	o := spindle.Options{Loop: loop.Options{OnBlocked: func(loop.Blocked) {}}}
	err := o.Run(ctx, func(ctx context.Context) error {
		start := time.Now()
		err := fn(ctx)
		took = time.Since(start)
		return err
	})
	return took, err
}

// alternations is how often ours and Go's version alternate within a round, so that a slow
// phase of the machine affects both.
const alternations = 8

// pair measures n operations of Spindle and n of Go in each round, alternately. It adds the nanoseconds of one
// operation to both keys.
func (s *session) pair(ctx context.Context, n int, ourKey string, ours func(context.Context, int) error, goKey string, gos func(int)) error {
	n /= alternations
	for range s.rounds {
		if err := s.round(ctx); err != nil {
			return err
		}
		for range alternations {
			took, err := inTask(ctx, func(ctx context.Context) error { return ours(ctx, n) })
			if err != nil {
				return err
			}
			start := time.Now()
			gos(n)
			s.add(ourKey, float64(took)/float64(n))
			s.add(goKey, float64(time.Since(start))/float64(n))
		}
	}
	return nil
}

// benchSwitch runs two tasks that yield to each other, so that each yield is a switch, beside
// a round trip of a bare iter.Pull.
func benchSwitch(ctx context.Context, s *session) error {
	return s.pair(ctx, s.switches, "switch_ns", func(ctx context.Context, n int) error {
		yields := func(ctx context.Context) error {
			for range n / 2 {
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			return nil
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(yields)
			n.Go(yields)
			return nil
		})
	}, "pull_ns", func(n int) {
		next, stop := iter.Pull(func(yield func(int) bool) {
			for yield(0) {
			}
		})
		defer stop()
		for range n {
			next()
		}
	})
}

// benchSpawn starts tasks one after the other and waits for each, beside goroutines that are
// started and joined.
func benchSpawn(ctx context.Context, s *session) error {
	nop := func(context.Context) error { return nil }
	err := s.pair(ctx, s.spawns, "spawn_ns", func(ctx context.Context, n int) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, nursery *spindle.Nursery) error {
			for range n {
				nursery.Go(nop)
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}, "goroutine_ns", func(n int) {
		for range n {
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

// parkedBytes measures the stack and heap of a waiting task, over many tasks.
func parkedBytes(ctx context.Context, s *session) error {
	_, err := inTask(ctx, func(ctx context.Context) error {
		var queue spindle.Lot
		before := memoryInUse()
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for range s.parked {
				n.Go(func(ctx context.Context) error { return queue.Wait(ctx, "the end") })
			}
			for range 2 { // all of them wait now
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			s.add("parked_bytes", float64(memoryInUse()-before)/float64(s.parked))
			queue.Wake(s.parked)
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

// benchGather gathers ten tasks at a time.
func benchGather(ctx context.Context, s *session) error {
	const each = 10
	fns := make([]func(context.Context) (int, error), each)
	for i := range fns {
		fns[i] = func(context.Context) (int, error) { return i, nil }
	}
	return s.pair(ctx, s.spawns, "gather_ns", func(ctx context.Context, n int) error {
		for range n / each {
			if _, err := spindle.Gather(ctx, fns...); err != nil {
				return err
			}
		}
		return nil
	}, "go_gather_ns", func(n int) {
		for range n / each {
			var all sync.WaitGroup
			results := make([]int, each)
			for i := range results {
				all.Go(func() { results[i] = i })
			}
			all.Wait()
		}
	})
}
