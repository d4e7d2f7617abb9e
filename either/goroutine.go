package either

import (
	"context"
	"errors"
	"runtime"
	"time"
)

// What goroutines do with the machine's clock. No simulated program gets here: its tasks have the
// clock of their world.

func now() time.Time { return time.Now() }

func sleep(ctx context.Context, d time.Duration) error {
	if err := Checkpoint(ctx); err != nil {
		return err
	}
	if d <= 0 {
		runtime.Gosched()
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// limited runs fn for at most d, and reports whether that ended it.
func limited(ctx context.Context, d time.Duration, fn func(context.Context) error) (expired bool, err error) {
	within, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err = fn(within)
	return ctx.Err() == nil && within.Err() != nil && errors.Is(err, context.DeadlineExceeded), err
}
