package main

import (
	"context"
	"sync"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// batch is how many callbacks or timers one turn makes. The programs of bench/peers, which
// these figures are compared with, use the same number.
const batch = 1000

func nothing() {}

// newBenchLoop makes a loop with the default options, including the watchdog. Its reports are
// dropped: on a busy machine a turn can take long, and a stack would disturb the table.
func newBenchLoop() (*loop.Loop, error) {
	return loop.New(loop.Options{OnBlocked: func(loop.Blocked) {}})
}

// perSecondOf returns the rate of n operations that took the given time.
func perSecondOf(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }

// timed runs l from a first callback until Stop.
func timed(ctx context.Context, l *loop.Loop, first func()) (time.Duration, error) {
	l.CallSoon(first)
	start := time.Now()
	err := l.Run(ctx)
	return time.Since(start), err
}

// inBatches runs makeBatch in one turn after the other, n/batch times, and then last. One
// callback that made a million timers would block the loop.
func inBatches(l *loop.Loop, n int, makeBatch, last func()) (first func()) {
	var turn func()
	turn = func() {
		makeBatch()
		if n -= batch; n > 0 {
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
	var handles [batch]loop.Handle // kept, as in a program that may cancel them
	makeBatch := func() {
		for i := range handles {
			handles[i] = l.CallSoon(nothing)
		}
	}
	return s.each(ctx, "callbacks_per_s", func() (float64, error) {
		// The loop stops in a callback after the last batch.
		stop := func() { l.CallSoon(l.Stop) }
		took, err := timed(ctx, l, inBatches(l, s.callbacks, makeBatch, stop))
		return perSecondOf(s.callbacks, took), err
	})
}

func benchTurns(ctx context.Context, s *session) error {
	l, err := newBenchLoop()
	if err != nil {
		return err
	}
	defer l.Close()
	return s.each(ctx, "turns_per_s", func() (float64, error) {
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
		err = s.each(ctx, by.key, func() (float64, error) {
			return postRound(ctx, l, by.posters, s.posts/by.posters)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// postRound starts goroutines that post to the running loop, and waits until every callback
// has run.
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
	all.Wait() // after an interrupt they may still post
	return perSecondOf(posters*each, took), err
}
