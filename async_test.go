package spindle_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// holdHostage blocks the goroutine it is called on.
func holdHostage(released <-chan struct{}) { <-released }

// TestASYNC01 shows what a blocking section does: it delays unrelated tasks of
// the same loop, and the watchdog names it while it blocks.
func TestASYNC01(t *testing.T) {
	released := make(chan struct{})
	var report loop.Blocked
	o := spindle.Options{Loop: loop.Options{
		Watchdog:  20 * time.Millisecond,
		OnBlocked: func(b loop.Blocked) { report = b; close(released) },
	}}
	var late time.Duration
	err := spindle.RunWith(t.Context(), o, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { // unrelated
				due := spindle.Now(ctx).Add(time.Millisecond)
				err := spindle.Sleep(ctx, time.Millisecond)
				late = spindle.Now(ctx).Sub(due)
				return err
			})
			n.Go(func(ctx context.Context) error { holdHostage(released); return nil })
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if late < 15*time.Millisecond {
		t.Errorf("the unrelated task was only %v late", late)
	}
	if !bytes.Contains(report.Stack, []byte("holdHostage")) {
		t.Errorf("the watchdog did not name what blocked:\n%s", report.Stack)
	}
}

// TestASYNC02 offloads the same section: unrelated tasks go on meanwhile.
func TestASYNC02(t *testing.T) {
	released := make(chan struct{})
	o := spindle.Options{Loop: loop.Options{
		Watchdog:  2 * time.Second,
		OnBlocked: func(b loop.Blocked) { t.Errorf("an offloaded section blocked the loop: %v", b) },
	}}
	err := spindle.RunWith(t.Context(), o, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				for range 5 { // all of it while the other is blocked
					if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
						return err
					}
				}
				close(released)
				return nil
			})
			_, err := spindle.Blocking(ctx, func() (int, error) { holdHostage(released); return 0, nil })
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}
