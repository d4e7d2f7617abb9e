package cancelpoints_test

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/spindleloop/spindle"
)

// rootWaits are the waits of package spindle.
var rootWaits = []wait{
	{name: ".Sleep", prepare: ready(forever)},
	{name: ".Yield", ends: true, prepare: ready(spindle.Yield)},
	{name: ".Checkpoint", ends: true, prepare: ready(spindle.Checkpoint)},
	{name: ".NewWaker .Waker.Park", prepare: ready(func(ctx context.Context) error {
		w, err := spindle.NewWaker(ctx)
		if err != nil {
			return err
		}
		return w.Park(ctx, "test", spindle.AbortFunc(func() bool { return true }))
	})},
	{name: ".Lot.Wait", prepare: ready(func(ctx context.Context) error { return new(spindle.Lot).Wait(ctx, "test") })},
	{name: ".Ticker.Wait", prepare: ready(func(ctx context.Context) error {
		return spindle.NewTicker(ctx, time.Hour).Wait(ctx)
	})},
	{name: ".Future.Await", prepare: ready(func(ctx context.Context) error {
		_, err := spindle.NewFuture[int](ctx).Await(ctx)
		return err
	})},
	{name: ".Wait", prepare: ready(func(ctx context.Context) error {
		_, _, err := spindle.Wait(ctx, spindle.AllDone, spindle.NewFuture[int](ctx))
		return err
	})},
	{name: ".AsCompleted", prepare: ready(func(ctx context.Context) error {
		for _, err := range spindle.AsCompleted(ctx, spindle.NewFuture[int](ctx)) {
			return err
		}
		return nil
	})},
	{name: ".Blocking", ends: true, prepare: ready(func(ctx context.Context) error {
		_, err := spindle.Blocking(ctx, func() (int, error) { return 0, nil })
		return err
	})},
	{name: ".Abandon", prepare: func(_ context.Context, _ *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		release := make(chan struct{})
		after(func() { close(release) })
		return func(ctx context.Context) error {
			_, err := spindle.Abandon(ctx, func() (int, error) { <-release; return 0, nil })
			return err
		}, nil
	}},
	{name: ".WithScope", prepare: ready(func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(ctx context.Context, _ *spindle.Scope) error { return forever(ctx) })
	})},
	{name: ".MoveOnAfter", prepare: ready(func(ctx context.Context) error {
		_, err := spindle.MoveOnAfter(ctx, time.Hour, forever)
		return err
	})},
	{name: ".FailAfter", prepare: ready(func(ctx context.Context) error { return spindle.FailAfter(ctx, time.Hour, forever) })},
	{name: ".WithNursery", prepare: ready(func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(forever)
			n.Go(forever)
			return nil
		})
	})},
	{name: ".Start", prepare: func(_ context.Context, n *spindle.Nursery, _ func(func())) (func(context.Context) error, error) {
		return starts(n), nil
	}},
	{name: ".Start, full nursery", prepare: func(_ context.Context, n *spindle.Nursery, _ func(func())) (func(context.Context) error, error) {
		n.SetLimit(1)
		n.Go(forever)
		return starts(n), nil
	}},
	{name: ".Gather", prepare: ready(func(ctx context.Context) error {
		_, err := spindle.Gather(ctx, result, result)
		return err
	})},
	{name: ".GatherAll", prepare: ready(func(ctx context.Context) error {
		_, _, err := spindle.GatherAll(ctx, result, result)
		return err
	})},
	{name: ".ForEach", prepare: ready(func(ctx context.Context) error {
		return spindle.ForEach(ctx, 1, []int{1, 2}, func(ctx context.Context, _ int) error { return forever(ctx) })
	})},
	{name: ".Map", prepare: ready(func(ctx context.Context) error {
		_, err := spindle.Map(ctx, 2, []int{1, 2}, func(ctx context.Context, _ int) (int, error) { return result(ctx) })
		return err
	})},
	{name: ".WaitReadable", prepare: func(_ context.Context, _ *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		after(func() { r.Close(); w.Close() })
		fd := int(r.Fd())
		return func(ctx context.Context) error { return spindle.WaitReadable(ctx, fd) }, nil
	}},
	{name: ".WaitWritable", prepare: func(_ context.Context, _ *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			return nil, err
		}
		after(func() { syscall.Close(fds[0]); syscall.Close(fds[1]) })
		if err := syscall.SetNonblock(fds[0], true); err != nil {
			return nil, err
		}
		for err == nil {
			_, err = syscall.Write(fds[0], make([]byte, 64<<10))
		}
		return func(ctx context.Context) error { return spindle.WaitWritable(ctx, fds[0]) }, nil
	}},
}

func result(ctx context.Context) (int, error) { return 0, forever(ctx) }

// starts returns a call of Start with a function that never reports that it has started.
func starts(n *spindle.Nursery) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := spindle.Start(ctx, n, func(ctx context.Context, _ func(int)) error { return forever(ctx) })
		return err
	}
}
