package main

import (
	"context"
	"sync"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// lot is how many callbacks or timers one turn makes, here and in the programs
// of bench/peers that these figures are compared with.
const lot = 1000

func nothing() {}

// newBenchLoop makes a loop as anyone would, watchdog and all. Only its reports
// are dropped: on a busy machine a turn can take long through no fault of its
// own, and a stack in the middle of the table helps nobody.
func newBenchLoop() (*loop.Loop, error) {
	return loop.New(loop.Options{OnBlocked: func(loop.Blocked) {}})
}

// perSecondOf is the rate of n things that took so long.
func perSecondOf(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }

// timed runs l from a first callback until Stop.
func timed(ctx context.Context, l *loop.Loop, first func()) (time.Duration, error) {
	l.CallSoon(first)
	start := time.Now()
	err := l.Run(ctx)
	return time.Since(start), err
}

// inLots runs makeLot in turn after turn until n things are made, and then
// last. One callback that made a million would be reported by the watchdog,
// and rightly so.
func inLots(l *loop.Loop, n int, makeLot, last func()) (first func()) {
	var turn func()
	turn = func() {
		makeLot()
		if n -= lot; n > 0 {
			l.CallSoon(turn)
		} else {
			last()
		}
	}
	return turn
}

func benchCallbacks(ctx context.Context, s *session) error {
	l, err := newBenchLoop()
	if err != nil {
		return err
	}
	defer l.Close()
	var handles [lot]loop.Handle // kept, as by someone who may want to cancel
	makeLot := func() {
		for i := range handles {
			handles[i] = l.CallSoon(nothing)
		}
	}
	return s.median(ctx, "callbacks_per_s", func() (float64, error) {
		// The loop stops in a callback behind the last lot.
		stop := func() { l.CallSoon(l.Stop) }
		took, err := timed(ctx, l, inLots(l, s.callbacks, makeLot, stop))
		return perSecondOf(s.callbacks, took), err
	})
}

func benchTurns(ctx context.Context, s *session) error {
	l, err := newBenchLoop()
	if err != nil {
		return err
	}
	defer l.Close()
	return s.median(ctx, "turns_per_s", func() (float64, error) {
		left := s.turns
		var again func()
		again = func() {
			if left--; left <= 0 {
				l.Stop()
				return
			}
			l.CallSoon(again)
		}
		took, err := timed(ctx, l, again)
		return perSecondOf(s.turns, took), err
	})
}

func benchPost(ctx context.Context, s *session) error {
	for _, by := range []struct {
		key     string
		posters int
	}{
		{"post_1_per_s", 1},
		{"post_4_per_s", 4},
	} {
		l, err := newBenchLoop()
		if err != nil {
			return err
		}
		defer l.Close()
		err = s.median(ctx, by.key, func() (float64, error) {
			return postRound(ctx, l, by.posters, s.posts/by.posters)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// postRound lets goroutines post to l, which runs already when they begin,
// until every callback has run.
func postRound(ctx context.Context, l *loop.Loop, posters, each int) (float64, error) {
	left := posters * each
	callback := func() {
		if left--; left == 0 {
			l.Stop()
		}
	}
	var all sync.WaitGroup
	took, err := timed(ctx, l, func() {
		for range posters {
			all.Go(func() {
				for range each {
					l.Post(callback)
				}
			})
		}
	})
	all.Wait() // after an interrupt they are still at it
	return perSecondOf(posters*each, took), err
}
