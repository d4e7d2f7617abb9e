// Command mixed has callbacks, tasks and goroutines work together: a goroutine
// measures, which blocks; a task adds up; a callback of the same loop looks on,
// and has the mean worked out on a goroutine; another goroutine asks for the sum.
//
//	go run ./examples/mixed
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/loop"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// station is touched by callbacks and tasks of one loop only: no lock.
type station struct {
	l      *loop.Loop
	sum, n int
	mean   *spindle.Future[float64]
}

const samples = 5

func run(ctx context.Context, out io.Writer) error {
	l, err := loop.New(loop.Options{})
	if err != nil {
		return err
	}
	defer l.Close()
	var ended error
	l.CallSoon(func() {
		fmt.Fprintln(out, "callback: before any task")
		spindle.RunOn(ctx, l, func(ctx context.Context) error {
			return (&station{l: l, mean: spindle.NewFuture[float64](ctx)}).work(ctx, out)
		}, func(err error) { ended = err; l.Stop() })
	})
	return errors.Join(l.Run(context.Background()), ended) // the end of the tasks is the loop's
}

// work is a task.
func (s *station) work(ctx context.Context, out io.Writer) error {
	s.l.CallSoon(s.watch)
	// From a goroutine to a task: an Inbox, bounded, and with an end.
	readings := cosync.NewInbox[int](2)
	go measure(ctx, readings)
	for reading, err := range readings.All(ctx) {
		if err != nil {
			return err
		}
		s.sum, s.n = s.sum+reading, s.n+1
	}
	fmt.Fprintln(out, "task: added up", s.n)

	// From a callback to a task: a Future, which watch resolves.
	mean, err := s.mean.Await(ctx)
	fmt.Fprintln(out, "task: the mean is", mean, err)

	// From a task to a goroutine and back: Blocking; from a goroutine to the loop
	// and back: FromGoroutine, whose function runs as a callback.
	sum, err := spindle.Blocking(ctx, func() (int, error) {
		return spindle.FromGoroutine(ctx, s.l, func() (int, error) { return s.sum, nil })
	})
	fmt.Fprintln(out, "goroutine: the sum is", sum, err)
	return err
}

// measure is a goroutine. It may block, and knows nothing of the loop.
func measure(ctx context.Context, readings *cosync.Inbox[int]) {
	defer readings.Close()
	for i := 0; i < samples && readings.Put(ctx, 10*i) == nil; i++ { // an error is the run's end
	}
}

// watch is a callback that comes back by a timer until all is added up. It cannot
// wait: it gives work away, and another callback gets the result.
func (s *station) watch() {
	if s.n < samples {
		s.l.CallLater(time.Millisecond, s.watch)
		return
	}
	sum, n := s.sum, s.n // the goroutine must not look at s
	work := func() (float64, error) { return float64(sum) / float64(n), nil }
	if _, err := loop.Offload(s.l, work, func(mean float64, _ error) { s.mean.Resolve(mean) }); err != nil {
		s.mean.Reject(err)
	}
}
