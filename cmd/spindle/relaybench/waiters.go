package relaybench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/report"
	"github.com/spindleloop/spindle/relay"
)

// MeasureWaiters measures n calls that no worker answers: the memory of each with its request, stream and slot,
// how long it takes to end all of the streams, and from the end of the scope of as many tasks that call until
// the last of their calls has returned.
func MeasureWaiters(ctx context.Context, rounds, n int) ([]report.Section, error) {
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
			each, streams = append(each, bytes), append(streams, took.Seconds()*1e3)
			if err := drain(ctx, sub, n); err != nil {
				return err
			}
			if took, err = cancelTasks(ctx, c, n); err != nil {
				return err
			}
			tasks = append(tasks, took.Seconds()*1e3)
			return errors.Join(drain(ctx, sub, n), c.Close())
		})
		if err != nil {
			return nil, fmt.Errorf("relaybench: %w", err)
		}
	}
	return []report.Section{{
		Title: "Calls that wait at the same time", Columns: []report.Column{{Name: "calls", Unit: report.Bytes}},
		Rows: []report.Row{{Name: "calls", Key: "waiters", Figures: [][]float64{{float64(n)}}}},
	}, {
		Title: "Memory of a waiter", Columns: []report.Column{{Name: "bytes", Unit: report.Bytes, Better: report.Lower}},
		Rows: []report.Row{{Name: "call, with request and stream", Ours: true, Key: "waiter_bytes", Figures: [][]float64{each}}},
	}, {
		Title: "All of them cancelled", Columns: []report.Column{{Name: "ms", Unit: report.Number, Better: report.Lower}},
		Rows: []report.Row{
			{Name: "until the calls of all tasks of a scope have returned", Ours: true, Key: "cancel_all_ms", Figures: [][]float64{tasks}},
			{Name: "as many streams closed", Ours: true, Key: "cancel_streams_ms", Figures: [][]float64{streams}},
		},
	}}, nil
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
		all[i], err = c.Stream(ctx, relay.Envelope{Subject: "work"})
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
