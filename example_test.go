package spindle_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// Two tasks take turns; the nursery waits for both.
func Example() {
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for _, name := range []string{"tick", "tock"} {
				n.Go(func(ctx context.Context) error {
					for range 2 {
						fmt.Println(name)
						if err := spindle.Yield(ctx); err != nil {
							return err
						}
					}
					return nil
				})
			}
			return nil
		})
	})
	fmt.Println(err)
	// Output:
	// tick
	// tock
	// tick
	// tock
	// <nil>
}

// FailAfter cancels code that takes too long, with all tasks inside.
func ExampleFailAfter() {
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		return spindle.FailAfter(ctx, time.Millisecond, func(ctx context.Context) error {
			return spindle.Sleep(ctx, time.Hour)
		})
	})
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

// Gather runs functions concurrently and returns their results in order.
func ExampleGather() {
	spindle.Run(context.Background(), func(ctx context.Context) error {
		square := func(n int) func(context.Context) (int, error) {
			return func(ctx context.Context) (int, error) {
				err := spindle.Sleep(ctx, time.Duration(3-n)*time.Millisecond)
				return n * n, err
			}
		}
		squares, err := spindle.Gather(ctx, square(1), square(2), square(3))
		fmt.Println(squares, err)
		return nil
	})
	// Output: [1 4 9] <nil>
}

// Grace lets code that cleans up wait although its scope is cancelled.
func ExampleGrace() {
	spindle.Run(context.Background(), func(ctx context.Context) error {
		spindle.MoveOnAfter(ctx, time.Millisecond, func(ctx context.Context) error {
			defer spindle.Grace(ctx, time.Second, func(ctx context.Context) error {
				err := spindle.Sleep(ctx, time.Millisecond)
				fmt.Println("said goodbye:", err)
				return err
			})
			return spindle.Sleep(ctx, time.Hour)
		})
		return nil
	})
	// Output: said goodbye: <nil>
}

// Blocking work runs on a goroutine; the task waits, the loop does not.
func ExampleBlocking() {
	spindle.Run(context.Background(), func(ctx context.Context) error {
		n, err := spindle.Blocking(ctx, func() (int, error) { return 6 * 7, nil })
		fmt.Println(n, err)
		return err
	})
	// Output: 42 <nil>
}

func ExampleMap() {
	spindle.Run(context.Background(), func(ctx context.Context) error {
		sizes, err := spindle.Map(ctx, 2, []string{"one", "two", "three"}, func(ctx context.Context, word string) (int, error) {
			return len(word), spindle.Sleep(ctx, time.Millisecond) // at most two at a time
		})
		fmt.Println(sizes, err)
		return nil
	})
	// Output: [3 3 5] <nil>
}

// A task waits on a bare descriptor, while the loop runs other tasks.
func ExampleWaitReadable() {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer syscall.Close(pair[0])
	defer syscall.Close(pair[1])
	err = spindle.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				if err := spindle.WaitReadable(ctx, pair[0]); err != nil {
					return err
				}
				p := make([]byte, 64)
				count, err := syscall.Read(pair[0], p)
				fmt.Printf("received %q\n", p[:max(count, 0)])
				return err
			})
			n.Go(func(ctx context.Context) error {
				fmt.Println("sending")
				_, err := syscall.Write(pair[1], []byte("hello"))
				return err
			})
			return nil
		})
	})
	fmt.Println(err)
	// Output:
	// sending
	// received "hello"
	// <nil>
}

// A loop for each processor. The state of one loop belongs to its tasks; others call it.
func ExampleOptions_RunGroup() {
	total := 0 // belongs to the first loop
	err := spindle.RunGroup(context.Background(), 3, func(ctx context.Context, g *loop.Group) error {
		_, err := spindle.CallOn(ctx, g.Loops()[0], func(context.Context) (int, error) {
			total += 10
			return total, nil
		})
		return err
	})
	fmt.Println(total, err)
	// Output: 30 <nil>
}

// CallOn runs a function in a task of another loop, and waits for its result.
func ExampleCallOn() {
	err := spindle.RunGroup(context.Background(), 2, func(ctx context.Context, g *loop.Group) error {
		first, second := g.Loops()[0], g.Loops()[1]
		if spindle.LoopOf(ctx) != first {
			return nil
		}
		there, err := spindle.CallOn(ctx, second, func(ctx context.Context) (bool, error) {
			return spindle.LoopOf(ctx) == second, nil
		})
		fmt.Println(there, err)
		return err
	})
	fmt.Println(err)
	// Output:
	// true <nil>
	// <nil>
}
