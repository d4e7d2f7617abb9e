package relay_test

import (
	"context"
	"errors"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
)

// onLoop runs a benchmark in a task, with a worker on goroutines.
func onLoop(b *testing.B, concurrency int, fn func(ctx context.Context, c *relay.Caller) error) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(b, bus, "echo", relay.ServeOptions{Concurrency: concurrency}, echo)
	err := spindle.Run(b.Context(), func(ctx context.Context) error {
		c := newCaller(b, ctx, bus, relay.CallerOptions{})
		return errors.Join(fn(ctx, c), c.Close())
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCall is a call from a task to a handler on a goroutine, and back. Compare it with
// BenchmarkGoChannel.
func BenchmarkCall(b *testing.B) {
	b.ReportAllocs()
	onLoop(b, 4, func(ctx context.Context, c *relay.Caller) error {
		body := make([]byte, 64)
		for b.Loop() {
			if _, err := c.Call(ctx, "echo", body); err != nil {
				return err
			}
		}
		return nil
	})
}

// BenchmarkGoChannel is a value sent to a goroutine, and one sent back.
func BenchmarkGoChannel(b *testing.B) {
	there, back := make(chan []byte), make(chan []byte)
	go func() {
		for v := range there {
			back <- v
		}
	}()
	defer close(there)
	body := make([]byte, 64)
	for b.Loop() {
		there <- body
		<-back
	}
}

// BenchmarkCalls64 has 64 calls in flight.
func BenchmarkCalls64(b *testing.B) {
	onLoop(b, 64, func(ctx context.Context, c *relay.Caller) error {
		body := make([]byte, 64)
		left := b.N
		b.ResetTimer()
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for range 64 {
				n.Go(func(ctx context.Context) error {
					for left > 0 {
						left--
						if _, err := c.Call(ctx, "echo", body); err != nil {
							return err
						}
					}
					return nil
				})
			}
			return nil
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		return err
	})
}
