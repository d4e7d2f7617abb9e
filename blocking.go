package spindle

import (
	"context"

	"github.com/spindleloop/spindle/loop"
)

// Blocking runs work on a goroutine, so that it may block, and waits for its
// result. A cancellation does not stop work, which cannot be stopped from
// outside: Blocking waits for its end, and the cancellation is there for the
// next wait. A panic in work is a panic here.
func Blocking[T any](ctx context.Context, work func() (T, error)) (T, error) {
	return offload(ctx, "Blocking", work, false)
}

// Abandon is Blocking that does not wait for work when it is cancelled: work
// goes on, and its result is dropped.
func Abandon[T any](ctx context.Context, work func() (T, error)) (T, error) {
	return offload(ctx, "Abandon", work, true)
}

func offload[T any](ctx context.Context, op string, work func() (T, error), leave bool) (value T, err error) {
	over := false
	var job loop.Job
	var refused error
	var waker Waker
	if waitErr := Park(ctx, op, func(w Waker) {
		waker = w
		job, refused = loop.Offload(LoopOf(ctx), work, func(v T, e error) {
			if !over {
				over = true
				value, err = v, e
				waker.Wake(nil)
			}
		})
		if refused != nil {
			over = true
			LoopOf(ctx).CallSoon(func() { waker.Wake(refused) })
		}
	}, func() bool {
		if over || !job.Cancel() && !leave {
			return false
		}
		over = true
		return true
	}); waitErr != nil {
		var zero T
		return zero, waitErr
	}
	if p, ok := err.(*PanicError); ok {
		panic(p)
	}
	return value, err
}

// FromGoroutine runs fn as a callback on a loop, from any other goroutine, and
// waits for its result. It fails with loop.ErrClosed if the loop was closed.
func FromGoroutine[T any](ctx context.Context, l *loop.Loop, fn func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	var zero T
	if err := l.Post(func() {
		value, err := fn()
		done <- result{value, err}
	}); err != nil {
		return zero, err
	}
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	}
}
