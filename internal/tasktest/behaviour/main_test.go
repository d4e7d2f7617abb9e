package behaviour_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

func TestMain(m *testing.M) { leak.Main(m) }

// loopTime returns the time at which the clock of ctx's loop shows at, in a simulated run.
func loopTime(ctx context.Context, at time.Duration) time.Time {
	return spindle.Now(ctx).Add(at - spindle.LoopOf(ctx).Time())
}

// forever waits until it is cancelled.
func forever(ctx context.Context) error { return spindle.Sleep(ctx, 1<<62) }

// nurse opens a nursery under virtual time and returns its error.
func nurse(t *testing.T, fn func(ctx context.Context, n *spindle.Nursery) error) error {
	t.Helper()
	return sim.Run(t.Context(), func(ctx context.Context) error { return spindle.WithNursery(ctx, fn) })
}

// after returns a function that sleeps for d and returns v.
func after[T any](d time.Duration, v T, err error) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		if err := spindle.Sleep(ctx, d); err != nil {
			var zero T
			return zero, err
		}
		return v, err
	}
}

// panicOf returns the panic of fn; nil if fn returns.
func panicOf(fn func() error) (p *spindle.PanicError) {
	defer func() { p, _ = recover().(*spindle.PanicError) }()
	fn()
	return nil
}

// mustPanic fails the test unless fn panics with want.
func mustPanic(t *testing.T, want string, fn func()) {
	t.Helper()
	defer func() {
		if got := recover(); got != want {
			t.Errorf("panic %v; want %q", got, want)
		}
	}()
	fn()
}

// turn runs the loop until nothing is ready.
func turn(t *testing.T, l *loop.Loop) {
	t.Helper()
	for n := 1; n > 0; {
		var err error
		if n, err = l.RunOnce(0); err != nil {
			t.Fatal(err)
		}
	}
}

func newLoop(t *testing.T) *loop.Loop {
	t.Helper()
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// elsewhere opens a nursery in a task of its own, and returns it.
func elsewhere(ctx context.Context, n *spindle.Nursery) (opened *spindle.Nursery, ended *spindle.Future[error], err error) {
	ended = spindle.NewFuture[error](ctx)
	opened, err = spindle.Start(ctx, n, func(ctx context.Context, started func(*spindle.Nursery)) error {
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			started(n)
			return forever(ctx)
		})
		ended.Resolve(err)
		return nil
	})
	return opened, ended, err
}

// openLoop returns a loop that the test closes itself.
func openLoop(t *testing.T) *loop.Loop {
	t.Helper()
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The causes of cancellations.
var (
	errCause = errors.New("the cause")
	errOther = errors.New("another cause")
)

// exits reports whether fn calls runtime.Goexit.
func exits(fn func()) bool {
	returned, done := false, make(chan struct{})
	go func() {
		defer close(done)
		fn()
		returned = true
	}()
	<-done
	return !returned
}
