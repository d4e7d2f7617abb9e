// Command circle runs tasks that wait for one another, an eager one, and one that is
// ended by runtime.Goexit. It prints how coroutines switch and what the tasks did.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
)

func main() {
	rounds := 0
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			const tasks, each = 3, 100
			var turn [tasks]*cosync.Queue[int]
			for i := range turn {
				turn[i] = cosync.NewQueue[int](1)
			}
			for i := range tasks {
				n.GoWith(spindle.TaskOptions{Eager: i == 1}, func(ctx context.Context) error {
					for range each {
						v, err := turn[i].Get(ctx)
						if err != nil {
							return err
						}
						rounds++
						if err := turn[(i+1)%tasks].Put(ctx, v+1); err != nil {
							return err
						}
					}
					return spindle.Sleep(ctx, time.Millisecond)
				})
			}
			return turn[0].Put(ctx, 0)
		})
	})
	fmt.Println("rounds", rounds, err)

	exited := true
	defer func() { // Run calls runtime.Goexit, as its task does
		fmt.Println("exited", exited)
		os.Exit(0)
	}()
	spindle.Run(context.Background(), func(ctx context.Context) error {
		runtime.Goexit()
		return nil
	})
	exited = false
}
