package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/proc"
	"github.com/spindleloop/spindle/supervise"
)

func Example() {
	attempt := 0
	cache := func(ctx context.Context, ready func()) error {
		if attempt++; attempt == 1 {
			return errors.New("cannot connect")
		}
		fmt.Println("the cache is ready")
		ready()
		return spindle.Sleep(ctx, time.Hour)
	}
	server := func(ctx context.Context) error {
		fmt.Println("the server serves")
		return nil // done
	}
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		_, err := spindle.MoveOnAfter(ctx, 50*time.Millisecond, func(ctx context.Context) error {
			return supervise.Run(ctx,
				supervise.Options{Strategy: supervise.RestForOne, FirstPause: time.Millisecond, Log: slog.New(slog.DiscardHandler)},
				supervise.Child{Name: "cache", Start: cache},
				supervise.Child{Name: "server", Run: server},
			)
		})
		return err
	})
	fmt.Println(err)
	// Output:
	// the cache is ready
	// the server serves
	// <nil>
}

// A process that is restarted when it fails, as often as it takes.
func ExampleRun_process() {
	run := func(ctx context.Context) error {
		return proc.Command("true").Run(ctx)
	}
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		return supervise.Run(ctx, supervise.Options{MaxRestarts: -1}, supervise.Child{Name: "worker", Run: run})
	})
	fmt.Println(err)
	// Output: <nil>
}

// Two loops, each on a goroutine of its own. If one fails, it is made again.
func ExampleRun_loops() {
	shards := spindle.Pool{Name: "shards", Limit: 2}
	shard := func(n int) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := spindle.Blocking(shards.In(ctx), func() (struct{}, error) {
				return struct{}{}, spindle.Run(ctx, func(ctx context.Context) error {
					return spindle.Sleep(ctx, time.Duration(n)*time.Millisecond) // its work
				})
			})
			return err
		}
	}
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		return supervise.Run(ctx, supervise.Options{},
			supervise.Child{Name: "shard 1", Run: shard(1)},
			supervise.Child{Name: "shard 2", Run: shard(2)},
		)
	})
	fmt.Println(err)
	// Output: <nil>
}
