package relaybench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
)

// Waiters are the figures of many calls that wait at the same time.
type Waiters struct {
	// Bytes is the memory of a waiter, with its request, stream and slot.
	Bytes float64

	// CancelStreams is how long it takes to end all of the streams, and CancelTasks from the
	// end of the scope of as many tasks that call until the last of their calls has returned.
	CancelStreams time.Duration
	CancelTasks   time.Duration
}

// MeasureWaiters measures n calls that no worker answers. Times are the medians of the rounds.
func MeasureWaiters(ctx context.Context, rounds, n int) (f Waiters, err error) {
	var each, streams, tasks []float64
	for range rounds {
		err := spindle.Run(ctx, func(ctx context.Context) error {
			bus := relay.NewLocal(relay.LocalOptions{Queue: n})
			sub, err := bus.Subscribe(ctx, "work", "")
			if err != nil {
				return err
			}
			defer sub.Close()
			c, err := relay.NewCaller(ctx, bus, relay.CallerOptions{Timeout: time.Hour, MaxWaiters: n})
			if err != nil {
				return err
			}
			bytes, took, err := cancelStreams(ctx, c, n)
			if err != nil {
				return err
			}
			each, streams = append(each, bytes), append(streams, float64(took))
			if err := drain(ctx, sub, n); err != nil {
				return err
			}
			if took, err = cancelTasks(ctx, c, n); err != nil {
				return err
			}
			tasks = append(tasks, float64(took))
			return errors.Join(drain(ctx, sub, n), c.Close())
		})
		if err != nil {
			return f, fmt.Errorf("relaybench: %w", err)
		}
	}
	return Waiters{Bytes: median(each), CancelStreams: time.Duration(median(streams)), CancelTasks: time.Duration(median(tasks))}, nil
}

// drain takes the requests of calls that were cancelled out of the queue.
func drain(ctx context.Context, sub relay.Subscription, n int) error {
	for range n {
		if _, err := sub.Next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// cancelStreams opens streams and closes them.
func cancelStreams(ctx context.Context, c *relay.Caller, n int) (bytes float64, took time.Duration, err error) {
	all := make([]*relay.Stream, n)
	before, err := heap(ctx)
	for i := range all {
		if err == nil && i%1000 == 0 {
			err = spindle.Yield(ctx) // a turn of the loop stays short
		}
		if err != nil {
			return 0, 0, err
		}
		all[i], err = c.Stream(ctx, "work", nil)
	}
	if err != nil {
		return 0, 0, err
	}
	after, err := heap(ctx)
	if err != nil {
		return 0, 0, err
	}
	bytes = float64(after-before) / float64(n)
	began := spindle.Now(ctx)
	for _, s := range all {
		s.Close()
	}
	return bytes, spindle.Now(ctx).Sub(began), nil
}

// cancelTasks starts tasks that call, and ends their scope when all of them wait.
func cancelTasks(ctx context.Context, c *relay.Caller, n int) (took time.Duration, err error) {
	var began time.Time
	err = spindle.WithNursery(ctx, func(ctx context.Context, nursery *spindle.Nursery) error {
		for i := range n {
			if i%1000 == 0 {
				if err := spindle.Yield(ctx); err != nil { // a turn of the loop stays short
					return err
				}
			}
			nursery.Go(func(ctx context.Context) error {
				_, err := c.Call(ctx, "work", nil)
				return err
			})
		}
		for c.Stats().Waiting < n {
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
		began = spindle.Now(ctx)
		nursery.Scope().Cancel(nil)
		return nil
	})
	return spindle.Now(ctx).Sub(began), err
}

// heap returns the memory in use after a collection.
func heap(ctx context.Context) (int64, error) {
	return spindle.Blocking(ctx, func() (int64, error) {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc), nil
	})
}
