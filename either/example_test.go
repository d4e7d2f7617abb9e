package either_test

import (
	"context"
	"fmt"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/either"
)

// countdown is a function of a library.
func countdown(ctx context.Context, from int) error {
	for n := from; n > 0; n-- {
		fmt.Println(n)
		if err := either.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func Example() {
	ctx := context.Background()
	fmt.Println(countdown(ctx, 2)) // on this goroutine
	fmt.Println(spindle.Run(ctx, func(ctx context.Context) error {
		return countdown(ctx, 2) // in a task
	}))
	// Output:
	// 2
	// 1
	// <nil>
	// 2
	// 1
	// <nil>
}
