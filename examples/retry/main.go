// Command retry calls an unreliable service. Each attempt has a time-out, and each pause
// between attempts is twice as long as the one before. The code under a time-out needs no
// cooperation: the time-out cancels its next wait.
//
//	go run ./examples/retry
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spindleloop/spindle"
)

func main() {
	err := spindle.Run(context.Background(), func(ctx context.Context) error { return run(ctx, os.Stdout) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "retry:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	policy := policy{tries: 4, timeout: 50 * time.Millisecond, pause: 10 * time.Millisecond}
	try := 0
	answer, err := retry(ctx, policy, func(ctx context.Context) (string, error) {
		try++
		fmt.Fprintln(out, "try", try)
		return unreliable(ctx, try)
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, answer)
	return nil
}

// unreliable hangs in the first attempt, fails in the second, and then answers.
func unreliable(ctx context.Context, try int) (string, error) {
	switch try {
	case 1:
		return "", spindle.Sleep(ctx, time.Hour)
	case 2:
		return "", errors.New("out of order")
	}
	return "forty-two", spindle.Sleep(ctx, time.Millisecond)
}

// policy configures retry.
type policy struct {
	tries   int
	timeout time.Duration // of each attempt
	pause   time.Duration // after the first failure; doubled after each further one
}

// retry calls fn until it succeeds. After the last attempt it returns the errors of all
// attempts.
func retry[T any](ctx context.Context, p policy, fn func(context.Context) (T, error)) (result T, err error) {
	var failures []error
	for try := 1; ; try++ {
		err = spindle.FailAfter(ctx, p.timeout, func(ctx context.Context) (err error) {
			result, err = fn(ctx)
			return err
		})
		if err == nil {
			return result, nil
		}
		// If ctx itself was cancelled, the error is returned unchanged: the scope that
		// it names absorbs it.
		if ctx.Err() != nil {
			return result, err
		}
		failures = append(failures, fmt.Errorf("try %d: %w", try, err))
		if try == p.tries {
			return result, errors.Join(failures...)
		}
		// A real client adds jitter to the pause, so that clients that failed together
		// do not retry together.
		if err := spindle.Sleep(ctx, p.pause<<(try-1)); err != nil {
			return result, err
		}
	}
}
