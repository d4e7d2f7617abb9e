package cosync_test

import (
	"context"
	"fmt"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/sim"
)

// simulated runs an example under virtual time: it takes no time, and its output
// is the same in every run.
func simulated(program func(ctx context.Context, n *spindle.Nursery) error) {
	err := sim.Run(context.Background(), func(ctx context.Context) error { return spindle.WithNursery(ctx, program) })
	if err != nil {
		fmt.Println(err)
	}
}

// At most two downloads at a time, each reported over a channel.
func Example() {
	simulated(func(ctx context.Context, n *spindle.Nursery) error {
		limit := cosync.NewSemaphore(2)
		tx, rx := cosync.NewChannel[string](0)
		for _, name := range []string{"a", "b", "c"} {
			mine := tx.Clone()
			n.Go(func(ctx context.Context) error {
				defer mine.Close()
				if err := limit.Acquire(ctx); err != nil {
					return err
				}
				defer limit.Release()
				if err := spindle.Sleep(ctx, time.Second); err != nil { // downloads
					return err
				}
				return mine.Send(ctx, fmt.Sprintf("%s after %v", name, spindle.LoopOf(ctx).Time()))
			})
		}
		tx.Close() // the tasks have their own
		for report, err := range rx.All(ctx) {
			if err != nil {
				return err
			}
			fmt.Println(report)
		}
		return nil
	})
	// Output:
	// a after 1s
	// b after 1s
	// c after 2s
}

// The channel ends when its last sender is closed.
func ExampleNewChannel() {
	simulated(func(ctx context.Context, n *spindle.Nursery) error {
		tx, rx := cosync.NewChannel[int](1)
		n.Go(func(ctx context.Context) error {
			defer tx.Close()
			for i := range 3 {
				if err := tx.Send(ctx, i*i); err != nil {
					return err // the receiver is closed, or the task is cancelled
				}
			}
			return nil
		})
		for v, err := range rx.All(ctx) {
			if err != nil {
				return err
			}
			fmt.Println(v)
		}
		return nil
	})
	// Output:
	// 0
	// 1
	// 4
}

// Urgent jobs come first. Jobs that were put before Close are still done.
func ExampleQueue() {
	simulated(func(ctx context.Context, n *spindle.Nursery) error {
		type job struct {
			urgency int
			name    string
		}
		jobs := cosync.NewPriorityQueue(10, func(a, b job) bool { return a.urgency > b.urgency })
		for _, j := range []job{{1, "sweep"}, {9, "put out the fire"}, {1, "water the plants"}} {
			if err := jobs.Put(ctx, j); err != nil {
				return err
			}
		}
		jobs.Close()
		for j, err := range jobs.All(ctx) {
			if err != nil {
				return err
			}
			fmt.Println(j.name)
		}
		return nil
	})
	// Output:
	// put out the fire
	// sweep
	// water the plants
}

// Select waits for a message, or for a minute of silence.
func ExampleSelect() {
	simulated(func(ctx context.Context, n *spindle.Nursery) error {
		tx, rx := cosync.NewChannel[string](0)
		n.Go(func(ctx context.Context) error {
			if err := spindle.Sleep(ctx, 20*time.Second); err != nil {
				return err
			}
			return tx.Send(ctx, "hello")
		})
		var message string
		for {
			switch i, err := cosync.Select(ctx, cosync.Recv(rx, &message), cosync.After(time.Minute)); {
			case err != nil:
				return err
			case i == 0:
				fmt.Println(message)
			default:
				fmt.Println("silence since", spindle.LoopOf(ctx).Time()-time.Minute)
				return nil
			}
		}
	})
	// Output:
	// hello
	// silence since 20s
}

// A goroutine computes values, and a task adds them up.
func ExampleInbox() {
	in := cosync.NewInbox[int](16)
	go func() {
		defer in.Close()
		for i := range 4 {
			if err := in.Put(context.Background(), i); err != nil {
				return
			}
		}
	}()
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		sum := 0
		for v, err := range in.All(ctx) {
			if err != nil {
				return err
			}
			sum += v
		}
		fmt.Println(sum)
		return nil
	})
	fmt.Println(err)
	// Output:
	// 6
	// <nil>
}
