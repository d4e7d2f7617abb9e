package threads_test

import (
	"context"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/loop"
)

func TestMain(m *testing.M) { leak.Main(m) }

// forever waits until it is cancelled.
func forever(ctx context.Context) error { return spindle.Sleep(ctx, 1<<62) }

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
