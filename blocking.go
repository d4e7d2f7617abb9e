package spindle

import (
	"context"

	"github.com/spindleloop/spindle/internal/atclose"
)

// Blocking runs work, which may block, on another goroutine, and waits for its result. A
// cancellation cannot stop work: Blocking waits for its end, and the next wait of the task
// fails. If work panics, so does Blocking.
//
// At most loop.Options.Workers calls run at a time, 32 unless it is set, and the others wait
// in order: slow calls delay all others. Calls that may be slow belong in a Pool of their own.
func Blocking[T any](ctx context.Context, work func() (T, error)) (T, error) {
	return offload(ctx, "Blocking", work, false)
}

// Abandon is Blocking, but does not wait for work when it is cancelled. Work continues, even
// after the run has ended, and its result, error or panic is dropped. Work that has not
// begun by then is never run.
func Abandon[T any](ctx context.Context, work func() (T, error)) (T, error) {
	return offload(ctx, "Abandon", work, true)
}

func offload[T any](ctx context.Context, op string, work func() (T, error), leave bool) (value T, err error) {
	// A run ends after its tasks: the result of work that outlives it is one that
	// no task waits for.
	at := atclose.Report
	if leave {
		at = atclose.Drop
	}
	waker, err := NewWaker(ctx)
	if err != nil {
		return value, err
	}
	over := false
	var result T
	var failure error
	var panicked error
	job, err := LoopOf(ctx).Internal().Offload(poolOf(ctx), at, work, func() { result, failure = work() }, func(p error) {
		if !over {
			over, panicked = true, p
			waker.Wake(nil)
		}
	})
	if err != nil {
		return value, err
	}
	if err := waker.Park(ctx, op, AbortFunc(func() bool {
		if over || !job.Cancel() && !leave {
			return false
		}
		over = true
		return true
	})); err != nil {
		return value, err
	}
	if panicked != nil {
		panic(panicked)
	}
	return result, failure
}
