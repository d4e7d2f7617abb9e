// Command producer shows backpressure: a fast producer and two slow consumers, with a
// channel of capacity two between them. When the channel is full, Send waits, so the
// producer runs at the pace of the consumers and nothing accumulates.
//
//	go run ./examples/producer
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
)

func main() {
	err := spindle.Run(context.Background(), func(ctx context.Context) error { return run(ctx, 8, os.Stdout) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "producer:", err)
		os.Exit(1)
	}
}

// capacity is how many loaves fit on the shelf.
const capacity = 2

// run starts the producer and the consumers, and waits until all loaves are eaten.
func run(ctx context.Context, loaves int, out io.Writer) error {
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		shelf, bread := cosync.NewChannel[int](capacity)
		n.Go(func(ctx context.Context) error { return bake(ctx, shelf, loaves, out) })

		// Each consumer has a receiver of its own. When the last one closes its
		// receiver, the producer's Send fails with ErrBroken, so that the producer
		// does not wait for consumers that have ended.
		for _, eater := range []struct {
			name string
			pace time.Duration
		}{{"Ada", 20 * time.Millisecond}, {"Ben", 50 * time.Millisecond}} {
			mine := bread.Clone()
			n.Go(func(ctx context.Context) error { return eat(ctx, mine, eater.name, eater.pace, out) })
		}
		bread.Close() // the consumers have their own
		return nil
	})
}

// bake is the producer.
func bake(ctx context.Context, shelf *cosync.Sender[int], loaves int, out io.Writer) error {
	defer shelf.Close() // ends the consumers' loops when the shelf is empty
	for loaf := 1; loaf <= loaves; loaf++ {
		if err := shelf.Send(ctx, loaf); err != nil {
			return err
		}
		fmt.Fprintf(out, "loaf %d is on the shelf (%d of %d)\n", loaf, shelf.Statistics().Used, capacity)
	}
	fmt.Fprintln(out, "the baker goes home")
	return nil
}

// eat is a consumer.
func eat(ctx context.Context, bread *cosync.Receiver[int], name string, pace time.Duration, out io.Writer) error {
	defer bread.Close()
	for loaf, err := range bread.All(ctx) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s eats loaf %d\n", name, loaf)
		if err := spindle.Sleep(ctx, pace); err != nil {
			return err
		}
	}
	return nil
}
