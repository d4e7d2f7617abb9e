package onloop

import (
	"context"

	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/loop"
)

// Caller returns the context of the calling task, of l or of another loop. It is for calls that wait for l and have no
// parameter for a context. For a goroutine that runs no loop it returns context.Background. It reports false in a
// callback, which must not wait, since it would block its loop.
func Caller(l *loop.Loop) (ctx context.Context, ok bool) {
	own := l
	if !l.Owns() {
		own = loop.Internal().Current()
	}
	if own == nil {
		return context.Background(), true
	}
	ctx = coro.Here(own)
	return ctx, ctx != nil
}

// Elsewhere calls fn, which may block, on another goroutine while the calling task waits. What names the wait in the
// task tree. If the task is cancelled, the context of fn ends, and Elsewhere waits for fn. It returns what fn returns,
// but in place of an error that came with a cancellation the cancellation.
func Elsewhere[T any](ctx context.Context, what string, fn func(context.Context) (T, error)) (T, error) {
	var zero T
	var answer struct {
		p     Parker
		value T
		err   error
	}
	const refused = "onloop: Elsewhere called with the context of another task"
	if err := answer.p.Prepare(ctx, refused); err != nil {
		return zero, err
	}
	until, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		answer.value, answer.err = fn(until)
		answer.p.Wake()
	}()
	if err := answer.p.Park(ctx, what, stopping(stop)); err != nil {
		return zero, err
	}
	if answer.err != nil {
		if err := answer.p.Prepare(ctx, refused); err != nil {
			return answer.value, err
		}
		answer.p.Pass()
	}
	return answer.value, answer.err
}

// stopping is the Aborter of a wait that goes on until what it waits for has stopped.
type stopping context.CancelFunc

// Abort does not end the wait.
func (stop stopping) Abort() bool {
	stop()
	return false
}
