package spindle_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// TestFireAndForgetTasksAreHeld: only the run refers to them, and they survive every
// garbage collection.
func TestFireAndForgetTasksAreHeld(t *testing.T) {
	ended := 0
	sim.Test(t, func(ctx context.Context) error {
		for i := range 100 {
			spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
				err := spindle.Sleep(ctx, time.Duration(i)*time.Second)
				ended++
				return err
			})
		}
		for range 3 {
			if err := spindle.Sleep(ctx, 33*time.Second); err != nil {
				return err
			}
			runtime.GC()
		}
		return spindle.Sleep(ctx, time.Second)
	})
	if ended != 100 {
		t.Errorf("%d of 100 ended", ended)
	}
}

// TestFireAndForgetTasksEndWithTheRun: they are cancelled and may clean up, and
// their errors are not lost.
func TestFireAndForgetTasksEndWithTheRun(t *testing.T) {
	cleaned := false
	boom := errors.New("boom")
	err := sim.Run(t.Context(), func(ctx context.Context) error {
		spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
			if err := forever(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			err := spindle.Grace(ctx, time.Second, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Millisecond) })
			cleaned = err == nil
			return boom
		})
		return spindle.Yield(ctx)
	})
	if err != boom || !cleaned {
		t.Errorf("%v, cleaned up %v", err, cleaned)
	}
}

// TestFireAndForgetFailureEndsTheRun with its error.
func TestFireAndForgetFailureEndsTheRun(t *testing.T) {
	boom := errors.New("boom")
	err := sim.Run(t.Context(), func(ctx context.Context) error {
		spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
			return errors.Join(spindle.Sleep(ctx, time.Minute), boom)
		})
		err := forever(ctx)
		if now := spindle.LoopOf(ctx).Time(); now != time.Minute {
			t.Errorf("%v at %v", err, now)
		}
		return err
	})
	if !errors.Is(err, boom) || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
