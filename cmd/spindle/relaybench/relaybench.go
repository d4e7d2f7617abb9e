// Package relaybench measures package relay inside one process. The command "spindle relay
// bench" and the benchmarks of package relay use it.
package relaybench

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/report"
	"github.com/spindleloop/spindle/relay"
)

// inFlight is the number of calls at a time for the rate of calls.
const inFlight = 64

// MeasureCalls measures calls from a task to a handler on a goroutine, in rounds of each calls, beside a value that is
// sent to a goroutine and one sent back, and a task that sends a value to a goroutine, which wakes it by Loop.Post: a call
// without anything that package relay adds. It needs about 5 microseconds for each call and round.
func MeasureCalls(ctx context.Context, rounds, each int) (tables []report.Section, err error) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ready, served := make(chan struct{}), make(chan error, 1)
	go func() {
		served <- relay.NewWorker(bus).Serve(serving, "echo", func(_ context.Context, r *relay.Request) ([]byte, error) {
			return r.Body, nil
		}, relay.ServeOptions{Ready: func() { close(ready) }})
	}()
	defer func() {
		stop()
		<-served
	}()
	<-ready
	err = spindle.Run(ctx, func(ctx context.Context) error {
		c, err := relay.NewCaller(ctx, bus, relay.CallerOptions{})
		if err != nil {
			return err
		}
		defer c.Close()
		tables, err = measure(ctx, c, rounds, each)
		return err
	})
	return tables, err
}

func measure(ctx context.Context, c *relay.Caller, rounds, each int) ([]report.Section, error) {
	body := make([]byte, 64)
	programs := map[string]func(ctx context.Context, n int) error{
		"call_ns":      func(ctx context.Context, n int) error { return sequential(ctx, c, body, n) },
		"calls_per_s":  func(ctx context.Context, n int) error { return concurrent(ctx, c, body, n) },
		"loop_wake_ns": wakeUps,
		"go_channel_ns": func(ctx context.Context, n int) error {
			_, err := spindle.Blocking(ctx, func() (struct{}, error) { channel(body, n); return struct{}{}, nil })
			return err
		},
	}
	var found report.Tally
	_, err := report.Interleave(rounds+1, slices.Sorted(maps.Keys(programs)), func(name string, round int) error {
		began := spindle.Now(ctx)
		if err := programs[name](ctx, each); err != nil {
			return err
		}
		took := float64(spindle.Now(ctx).Sub(began).Nanoseconds()) / float64(each)
		switch {
		case round == 0: // it has warmed everything up
		case name == "calls_per_s":
			found.Add(name, true, 1e9/took)
		default:
			found.Add(name, true, took)
		}
		return nil
	}, func(_ string, err error) error { return fmt.Errorf("relaybench: %w", err) })
	tables := []report.Section{{
		Title: "A call from a task to a goroutine and back", Reference: "call",
		Columns: []report.Column{{Name: "ns", Unit: report.Number, Better: report.Lower}},
		Rows: []report.Row{
			{Name: "call", Ours: true, Key: "call_ns"},
			{Name: "a value there and one back by Go's channels", Key: "go_channel_ns", RatioKey: "call_channel_ratio"},
			{Name: "a value there, and Loop.Post", Key: "loop_wake_ns"},
		},
	}, {
		Title: "Calls with 64 in flight", Columns: []report.Column{{Name: "calls / s", Unit: report.PerSecond}},
		Rows: []report.Row{{Name: "call", Ours: true, Key: "calls_per_s"}},
	}}
	for _, t := range tables {
		found.Fill(t.Rows)
	}
	return tables, err
}

func sequential(ctx context.Context, c *relay.Caller, body []byte, n int) error {
	for range n {
		if _, err := c.Call(ctx, "echo", body); err != nil {
			return err
		}
	}
	return nil
}

func concurrent(ctx context.Context, c *relay.Caller, body []byte, n int) error {
	return spindle.WithNursery(ctx, func(ctx context.Context, nursery *spindle.Nursery) error {
		for range inFlight {
			nursery.Go(func(ctx context.Context) error {
				for n > 0 {
					n--
					if _, err := c.Call(ctx, "echo", body); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return nil
	})
}

func channel(body []byte, n int) {
	there, back := make(chan []byte), make(chan []byte)
	go func() {
		for v := range there {
			back <- v
		}
	}()
	defer close(there)
	for range n {
		there <- body
		<-back
	}
}

func wakeUps(ctx context.Context, n int) error {
	there := make(chan spindle.Waker, 1)
	l := spindle.LoopOf(ctx)
	go func() {
		for v := range there {
			_ = l.Post(func() { v.Wake(nil) }) // the loop runs until this has ended
		}
	}()
	defer close(there)
	for range n {
		w, err := spindle.NewWaker(ctx)
		if err != nil {
			return err
		}
		there <- w
		l.Internal().ExpectPost()
		if err := w.Park(ctx, "relaybench: wake", unstoppable{}); err != nil {
			return err
		}
	}
	return nil
}

// unstoppable lets no cancellation end a wait that is about to end anyway.
type unstoppable struct{}

func (unstoppable) Abort() bool { return false }
