package cosync_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/sim"
)

// A channel that need not wait takes a short way. What holds for the long one holds
// there too.

func TestShortWayHeedsCancellation(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		tx, rx := cosync.NewChannel[int](4)
		if err := tx.Send(ctx, 1); err != nil {
			return err
		}
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			s.Cancel(nil)
			if err := tx.Send(ctx, 2); !errors.Is(err, context.Canceled) {
				t.Errorf("Send with room: %v", err)
			}
			if v, err := rx.Receive(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Receive of what is there: %d, %v", v, err)
			}
			if n := tx.Statistics().Used; n != 1 {
				t.Errorf("%d values are in the channel, want the first", n)
			}
			return nil
		})
	})
}

func TestShortWayLetsOthersRun(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		tx, rx := cosync.NewChannel[int](4)
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			ran := false
			n.Go(func(context.Context) error { ran = true; return nil })
			for i := range 1000 {
				if err := tx.Send(ctx, i); err != nil {
					return err
				}
				if v, err := rx.Receive(ctx); v != i || err != nil {
					t.Errorf("%d came for %d, %v", v, i, err)
				}
			}
			if !ran {
				t.Error("a thousand values went through while another task waited to begin")
			}
			return nil
		})
	})
}

// TestShortWayIsForTheRunningTask: another goroutine is refused, even while the task
// whose ctx it has is running.
func TestShortWayIsForTheRunningTask(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		tx, rx := cosync.NewChannel[int](4)
		if err := tx.Send(ctx, 1); err != nil {
			return err
		}
		for name, call := range map[string]func(){
			"Send":    func() { tx.Send(ctx, 2) },
			"Receive": func() { rx.Receive(ctx) },
		} {
			said := make(chan any)
			go func() {
				defer func() { said <- recover() }()
				call()
			}()
			text, _ := (<-said).(string)
			if !strings.Contains(text, "goroutine that is not the running task") {
				t.Errorf("%s: panic %q", name, text)
			}
		}
		if n := tx.Statistics().Used; n != 1 {
			t.Errorf("%d values are in the channel, want the first", n)
		}
		return nil
	})
}

// TestShortWayIsNotForClosedEnds, although the channel itself is open and has both
// values and room.
func TestShortWayIsNotForClosedEnds(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		tx, rx := cosync.NewChannel[int](4)
		closedTx, closedRx := tx.Clone(), rx.Clone()
		closedTx.Close()
		closedRx.Close()
		if err := tx.Send(ctx, 1); err != nil {
			return err
		}
		if err := closedTx.Send(ctx, 2); err != cosync.ErrClosed {
			t.Errorf("Send: %v", err)
		}
		if v, err := closedRx.Receive(ctx); err != cosync.ErrClosed {
			t.Errorf("Receive: %d, %v", v, err)
		}
		if n := tx.Statistics().Used; n != 1 {
			t.Errorf("%d values are in the channel, want the first", n)
		}
		return nil
	})
}
