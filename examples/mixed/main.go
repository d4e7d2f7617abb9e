// Command mixed combines callbacks, tasks and goroutines. A goroutine measures, which
// blocks; a task adds the readings; a callback of the same loop watches, and has a worker
// compute the mean; another goroutine asks for the sum.
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

// meter is used only by callbacks and tasks of one loop, so it needs no lock.
type meter struct {
	l      *loop.Loop
	sum, n int
	mean   *spindle.Future[float64]
}

const samples = 5

func run(ctx context.Context, out io.Writer) error {
	l, err := loop.New(loop.Options{Name: "mixed"})
	if err != nil {
		return err
	}
	defer l.Close()
	var ended error
	l.CallSoon(func() {
		fmt.Fprintln(out, "callback: before any task")
		spindle.RunOn(ctx, l, func(ctx context.Context) error {
			return (&meter{l: l, mean: spindle.NewFuture[float64](ctx)}).work(ctx, out)
		}, func(err error) { ended = err; l.Stop() })
	})
	return errors.Join(l.Run(context.Background()), ended) // done stops the loop
}

// work is a task.
func (m *meter) work(ctx context.Context, out io.Writer) error {
	m.l.CallSoon(m.watch)
	// From a goroutine to a task: an Inbox, which is bounded and can be closed.
	readings := cosync.NewInbox[int](2)
	go measure(ctx, readings)
	for reading, err := range readings.All(ctx) {
		if err != nil {
			return err
		}
		m.sum, m.n = m.sum+reading, m.n+1
	}
	fmt.Fprintln(out, "task: added up", m.n)

	// From a callback to a task: a Future, which watch resolves.
	mean, err := m.mean.Await(ctx)
	fmt.Fprintln(out, "task: the mean is", mean, err)

	// From a task to a goroutine and back: Blocking. From a goroutine to the loop and
	// back: CallOn, which runs its function in a task of the loop.
	sum, err := spindle.Blocking(ctx, func() (int, error) {
		return spindle.CallOn(ctx, m.l, func(context.Context) (int, error) { return m.sum, nil })
	})
	fmt.Fprintln(out, "goroutine: the sum is", sum, err)
	return err
}

// measure runs on a goroutine. It may block, and does not know the loop.
func measure(ctx context.Context, readings *cosync.Inbox[int]) {
	defer readings.Close()
	for i := 0; i < samples && readings.Put(ctx, 10*i) == nil; i++ { // an error means that the run has ended
	}
}

// watch is a callback that runs on a timer until all readings are added. A callback cannot
// wait: it offloads the work, and another callback receives the result.
func (m *meter) watch() {
	if m.n < samples {
		m.l.CallLater(time.Millisecond, m.watch)
		return
	}
	sum, n := m.sum, m.n // the goroutine must not access m
	work := func() (float64, error) { return float64(sum) / float64(n), nil }
	if _, err := loop.Offload(m.l, work, func(mean float64, _ error) { m.mean.Resolve(mean) }); err != nil {
		m.mean.Reject(err)
	}
}
