package coro_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/loop"
)

// script is the steps of a task: in each it yields, waits, wakes the waiting tasks, starts
// another task, or starts one eagerly. In the end it returns or exits. The first task ends
// last, and wakes those that still wait.
type script struct {
	id    int
	steps []step
	exits bool
}

type step struct {
	do    deed
	child *script
}

type deed int

const (
	yield deed = iota
	wait
	wake
	start
	begin
)

// scripts returns a random program of n tasks.
func scripts(r *rand.Rand, n int) *script {
	all := []*script{{}}
	for id := 1; id < n; id++ {
		child := &script{id: id, exits: r.IntN(4) == 0}
		parent := all[r.IntN(len(all))]
		do := start
		if r.IntN(3) == 0 {
			do = begin
		}
		parent.steps = append(parent.steps, step{do, child})
		all = append(all, child)
	}
	for _, s := range all {
		for range r.IntN(5) {
			do := deed(r.IntN(3))
			if do == wait && s.id == 0 {
				do = wake
			}
			s.steps = append(s.steps, step{do: do})
		}
		r.Shuffle(len(s.steps), func(i, j int) { s.steps[i], s.steps[j] = s.steps[j], s.steps[i] })
	}
	return all[0]
}

// event records that a task has reached one of its steps.
type event struct{ task, step int }

// modelled returns what should happen, according to one queue of ready tasks.
func modelled(first *script) (seen []event) {
	type place struct {
		s  *script
		at int
	}
	ready, asleep := []place{{s: first}}, []place{}
	running := 1
	rouse := func() {
		if len(asleep) > 0 {
			ready, asleep = append(ready, asleep[0]), asleep[1:]
		}
	}
	var run func(place)
	run = func(p place) {
		for ; p.at < len(p.s.steps); p.at++ {
			seen = append(seen, event{p.s.id, p.at})
			next := place{p.s, p.at + 1}
			switch step := p.s.steps[p.at]; step.do {
			case yield:
				ready = append(ready, next)
				return
			case wait:
				asleep = append(asleep, next)
				return
			case wake:
				rouse()
			case start:
				running++
				ready = append(ready, place{s: step.child})
			case begin:
				running++
				run(place{s: step.child})
			}
		}
		seen = append(seen, event{p.s.id, p.at})
		if p.s == first && running > 1 {
			rouse()
			ready = append(ready, p)
			return
		}
		running--
	}
	for len(ready) > 0 {
		p := ready[0]
		ready = ready[1:]
		run(p)
	}
	return seen
}

// executed returns what happens. Each task has a nursery of its own, so that one that exits
// does not cancel others.
func executed(t *testing.T, first *script) (seen []event) {
	o := loop.Internal().WithKernel(loop.Options{Watchdog: -1}, simkernel.NewKernel())
	err := spindle.Options{Loop: o}.Run(t.Context(), func(ctx context.Context) error {
		var lot spindle.Lot
		over := spindle.NewFuture[int](ctx)
		running := 0
		var ends []func(func(error))
		var launch func(s *script, eager bool)
		launch = func(s *script, eager bool) {
			n, end := spindle.NurseryOn(ctx, spindle.LoopOf(ctx))
			ends = append(ends, end)
			running++
			n.GoWith(spindle.TaskOptions{Eager: eager}, func(ctx context.Context) error {
				defer func() { running-- }()
				for i, step := range s.steps {
					seen = append(seen, event{s.id, i})
					var err error
					switch step.do {
					case yield:
						err = spindle.Yield(ctx)
					case wait:
						err = lot.Wait(ctx, "another task")
					case wake:
						lot.Wake(1)
					default:
						launch(step.child, step.do == begin)
					}
					if err != nil {
						t.Errorf("task %d: %v", s.id, err)
					}
				}
				seen = append(seen, event{s.id, len(s.steps)})
				if s.exits {
					runtime.Goexit()
				}
				if s != first {
					return nil
				}
				for running > 1 {
					lot.Wake(1)
					if err := spindle.Yield(ctx); err != nil {
						return err
					}
					seen = append(seen, event{s.id, len(s.steps)})
				}
				over.Resolve(len(ends))
				return nil
			})
		}
		launch(first, false)
		left, err := over.Await(ctx)
		for _, end := range ends {
			end(func(error) { left-- })
		}
		for left > 0 && err == nil {
			err = spindle.Yield(ctx)
		}
		return err
	})
	if err != nil {
		t.Errorf("Run: %v", err)
	}
	return seen
}

// TestAnyCoroutineCanFollowAnyOther: a coroutine that waits or ends switches directly to
// the next one. The order is that of one queue, and no task or coroutine remains.
func TestAnyCoroutineCanFollowAnyOther(t *testing.T) {
	for seed := range uint64(short.Of(300)) {
		r := rand.New(rand.NewPCG(seed, 0))
		tasks := 1 + r.IntN(60)
		if seed%100 == 99 {
			tasks = 4000 // more than are kept for reuse
		}
		first := scripts(r, tasks)
		want, got := modelled(first), executed(t, first)
		if !slices.Equal(got, want) {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Fatalf("seed %d, %d tasks: %d events, want %d; they differ from %d on", seed, tasks, len(got), len(want), at)
		}
	}
}

// TestEndedCoroutinesKeepNoOthers: a coroutine that has ended refers to no other one, so
// that a Waker that is kept does not keep a chain of them. Each task here is suspended in
// the pull of another one when it exits.
func TestEndedCoroutinesKeepNoOthers(t *testing.T) {
	l := newLoop(t)
	var first, second, kept spindle.Waker
	wait := func(ctx context.Context, w *spindle.Waker) {
		*w, _ = spindle.NewWaker(ctx)
		w.Park(ctx, "the test", spindle.AbortFunc(func() bool { return true }))
	}
	step := func(times int, fn func()) {
		l.CallSoon(fn)
		for range times {
			l.RunOnce(0)
		}
	}
	var ends []func(func(error))
	round := func() {
		step(3, func() {
			n, end := spindle.NurseryOn(context.Background(), l)
			ends = append(ends, end)
			n.Go(func(ctx context.Context) error {
				wait(ctx, &first)
				wait(ctx, &second)
				runtime.Goexit()
				return nil
			})
			first.Wake(nil) // the one before
		})
		if kept == (spindle.Waker{}) {
			kept = second
		}
		step(2, func() { second.Wake(nil) })
		if len(ends) == 2 { // and the task of the first has exited
			step(2, func() { ends[0](nil) })
			ends = ends[1:]
		}
	}
	live := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for range 100 {
		round()
	}
	before := live()
	for range 1000 {
		round()
	}
	if grown := int64(live() - before); grown > 100_000 {
		t.Errorf("%d bytes more after 1,000 exits", grown)
	}
	runtime.KeepAlive(kept)
	step(3, func() { first.Wake(nil) })
	step(3, func() { second.Wake(nil) })
	step(3, func() { ends[0](nil) })
}

func newLoop(t *testing.T) *loop.Loop {
	t.Helper()
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}
