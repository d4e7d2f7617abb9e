// Package either is for libraries that run in tasks of a loop, in a simulated world, and
// on plain goroutines. Its functions do what their namesakes in packages spindle and cosync do. Called
// by a goroutine that is no task, they use Go's scheduler, timers and channels instead.
//
//	func FetchAll(ctx context.Context, urls []string) error {
//		return either.WithNursery(ctx, func(ctx context.Context, n *either.Nursery) error {
//			for _, url := range urls {
//				n.Go(func(ctx context.Context) error {
//					return either.FailAfter(ctx, time.Minute, func(ctx context.Context) error { return fetch(ctx, url) })
//				})
//			}
//			return nil
//		})
//	}
//
// The caller decides: if ctx comes from a task, and the task calls, the functions of that nursery
// are tasks of its loop. Otherwise each is a goroutine. Goroutines run at the same time, so that
// state which they share needs a Mutex, even if it does not change across waits. For a queue, use a
// cosync.Inbox, which works in tasks, on goroutines and between them.
//
// Errors are alike: cancellations match context.Canceled, time-outs spindle.ErrTimeout, and several
// failures are a *spindle.Errors. There is one difference: on goroutines, waits fail with
// context.Cause(ctx), and a cause that the program has set need not match context.Canceled.
//
// Programs that run on a loop only need none of this: use packages spindle and cosync.
package either

import (
	"context"
	"fmt"
	"time"

	"github.com/spindleloop/spindle"
)

// inTask reports whether a task of a loop calls with its own context.
func inTask(ctx context.Context) bool {
	return spindle.ScopeOf(ctx) != nil && spindle.LoopOf(ctx).Owns()
}

// Sleep waits for d, or until ctx ends. If d is not positive, it only lets other tasks or
// goroutines run.
func Sleep(ctx context.Context, d time.Duration) error {
	if inTask(ctx) {
		return spindle.Sleep(ctx, d)
	}
	return sleep(ctx, d)
}

// Now returns the time: virtual time in a simulated world.
func Now(ctx context.Context) time.Time {
	if inTask(ctx) {
		return spindle.Now(ctx)
	}
	return now()
}

// Checkpoint fails if ctx has ended.
func Checkpoint(ctx context.Context) error {
	if inTask(ctx) {
		return spindle.Checkpoint(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Blocking calls work, which may block: for a task on a worker of the loop, for a goroutine directly.
func Blocking[T any](ctx context.Context, work func() (T, error)) (T, error) {
	if inTask(ctx) {
		return spindle.Blocking(ctx, work)
	}
	if err := Checkpoint(ctx); err != nil {
		var zero T
		return zero, err
	}
	return work()
}

// FailAfter runs fn and cancels it after d. If that ended fn, it fails with
// spindle.ErrTimeout, and wraps the error of fn.
func FailAfter(ctx context.Context, d time.Duration, fn func(context.Context) error) error {
	if inTask(ctx) {
		return spindle.FailAfter(ctx, d, fn)
	}
	expired, err := limited(ctx, d, fn)
	if expired {
		return fmt.Errorf("%w after %v: %w", spindle.ErrTimeout, d, err)
	}
	return err
}

// MoveOnAfter runs fn and cancels it after d. If that ended fn, it returns true and nil.
func MoveOnAfter(ctx context.Context, d time.Duration, fn func(context.Context) error) (expired bool, err error) {
	if inTask(ctx) {
		return spindle.MoveOnAfter(ctx, d, fn)
	}
	if expired, err = limited(ctx, d, fn); expired {
		return true, nil
	}
	return false, err
}
