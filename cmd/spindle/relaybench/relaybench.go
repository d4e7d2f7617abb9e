// Package relaybench measures package relay inside one process. The command "spindle relay
// bench" and the benchmarks of package relay use it.
package relaybench

import (
	"context"
	"fmt"
	"slices"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
)

// Calls are the figures of calls in the process. Every figure is the median of the rounds,
// and rounds of the different measurements alternate, so that noise meets all of them.
type Calls struct {
	// CallNS is the time of a call from a task to a handler on a goroutine, and back.
	CallNS float64 `json:"call_ns"`

	// ChannelNS is the time of a value that is sent to a goroutine, and one sent back.
	ChannelNS float64 `json:"go_channel_ns"`

	// WakeNS is the time of a value that a task sends to a goroutine, which wakes the
	// task by Loop.Post: a call without anything that package relay adds.
	WakeNS float64 `json:"loop_wake_ns"`

	// Ratio is the median of CallNS / ChannelNS of neighbouring rounds.
	Ratio float64 `json:"call_channel_ratio"`

	// PerSecond is the number of calls in a second with 64 in flight.
	PerSecond float64 `json:"calls_per_s"`
}

// inFlight is the number of calls at a time for Calls.PerSecond.
const inFlight = 64

// MeasureCalls measures calls in rounds of each calls. It needs about 5 microseconds for
// each call and round.
func MeasureCalls(ctx context.Context, rounds, each int) (Calls, error) {
	var f Calls
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
	err := spindle.Run(ctx, func(ctx context.Context) error {
		c, err := relay.NewCaller(ctx, bus, relay.CallerOptions{})
		if err != nil {
			return err
		}
		defer c.Close()
		f, err = measure(ctx, c, rounds, each)
		return err
	})
	return f, err
}

func measure(ctx context.Context, c *relay.Caller, rounds, each int) (f Calls, err error) {
	var calls, channels, wakes, many, ratios []float64
	round := func(to *[]float64, fn func(ctx context.Context, n int) error) error {
		began := spindle.Now(ctx)
		if err := fn(ctx, each); err != nil {
			return err
		}
		*to = append(*to, float64(spindle.Now(ctx).Sub(began).Nanoseconds())/float64(each))
		return nil
	}
	body := make([]byte, 64)
	for i := range rounds + 1 {
		if i == 1 { // the first one has warmed everything up
			calls, channels, wakes, many = nil, nil, nil, nil
		}
		for to, fn := range map[*[]float64]func(ctx context.Context, n int) error{
			&calls: func(ctx context.Context, n int) error { return sequential(ctx, c, body, n) },
			&many:  func(ctx context.Context, n int) error { return concurrent(ctx, c, body, n) },
			&wakes: wakeUps,
			&channels: func(ctx context.Context, n int) error {
				_, err := spindle.Blocking(ctx, func() (struct{}, error) { channel(body, n); return struct{}{}, nil })
				return err
			},
		} {
			if err := round(to, fn); err != nil {
				return f, fmt.Errorf("relaybench: %w", err)
			}
		}
	}
	for i := range calls {
		ratios = append(ratios, calls[i]/channels[i])
	}
	f = Calls{CallNS: median(calls), ChannelNS: median(channels), WakeNS: median(wakes), Ratio: median(ratios), PerSecond: 1e9 / median(many)}
	return f, nil
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
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
