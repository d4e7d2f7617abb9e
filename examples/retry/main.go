// Command retry asks an unreliable service: each try has a time-out, and after
// each failure the pause is twice as long. Time-outs need no cooperation from
// what they end: they cancel its next wait.
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

// unreliable hangs when it is first asked, fails when it is asked again, and
// then answers.
func unreliable(ctx context.Context, try int) (string, error) {
	switch try {
	case 1:
		return "", spindle.Sleep(ctx, time.Hour)
	case 2:
		return "", errors.New("out of order")
	}
	return "forty-two", spindle.Sleep(ctx, time.Millisecond)
}

// policy is how often and how patiently to try.
type policy struct {
	tries   int
	timeout time.Duration // of each try
	pause   time.Duration // after the first failure; then twice as long each time
}

// retry calls fn until it succeeds or there are no tries left; then the error
// tells of all of them.
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
		// If we are cancelled ourselves, that is no failure to try again, and
		// the error goes up as it is: the scope it names takes it back.
		if ctx.Err() != nil {
			return result, err
		}
		failures = append(failures, fmt.Errorf("try %d: %w", try, err))
		if try == p.tries {
			return result, errors.Join(failures...)
		}
		// A real client adds some chance to the pause, so that clients that
		// failed together do not come back together.
		if err := spindle.Sleep(ctx, p.pause<<(try-1)); err != nil {
			return result, err
		}
	}
}
