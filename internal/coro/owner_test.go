package coro_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/spindleloop/spindle"
)

// TestNewGoroutinesOwnNoLoop starts goroutines while many tasks end. The runtime gives them the identities of the goroutines
// of those tasks, and the loop must not take them for its own.
func TestNewGoroutinesOwnNoLoop(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: many goroutines")
	}
	var wrong atomic.Int64
	var others sync.WaitGroup
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		stop := make(chan struct{})
		defer close(stop)
		for range 4 {
			others.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					var young sync.WaitGroup
					for range 50 {
						young.Go(func() {
							if l.Owns() {
								wrong.Add(1)
							}
						})
					}
					young.Wait()
				}
			})
		}
		for range 60 {
			err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				for range 3000 { // more than are kept
					n.Go(func(ctx context.Context) error { return spindle.Yield(ctx) })
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	others.Wait()
	if n := wrong.Load(); err != nil || n > 0 {
		t.Errorf("%d goroutines are taken for the loop's; %v", n, err)
	}
}
