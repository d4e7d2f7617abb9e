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

// Calls that need not wait take a fast path. It obeys the same rules as the slow one.

func TestFastPathFailsWhenCancelled(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		tx, rx := cosync.NewChannel[int](4)
		if err := tx.Send(ctx, 1); err != nil {
			return err
		}
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			s.Cancel(nil)
			if err := tx.Send(ctx, 2); !errors.Is(err, context.Canceled) {
				t.Errorf("Send with space in the channel: %v", err)
			}
			if v, err := rx.Receive(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Receive with a value in the channel: %d, %v", v, err)
			}
			if n := tx.Statistics().Used; n != 1 {
				t.Errorf("%d values are in the channel, want the first", n)
			}
			return nil
		})
	})
}

func TestFastPathLetsOtherTasksRun(t *testing.T) {
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
					t.Errorf("received %d, want %d, %v", v, i, err)
				}
			}
			if !ran {
				t.Error("another task did not run during a thousand calls")
			}
			return nil
		})
	})
}

// TestFastPathRefusesGoroutines, even while the task that ctx belongs to is running.
func TestFastPathRefusesGoroutines(t *testing.T) {
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

// TestFastPathChecksForClosedEnds: the channel itself is open and has both values and
// space.
func TestFastPathChecksForClosedEnds(t *testing.T) {
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

// TestFastPathSwitch: after many calls in a row that need not wait, one of them switches to
// other tasks. What was free before the switch may be taken after it.
func TestFastPathSwitch(t *testing.T) {
	type holder struct {
		acquire func(context.Context) error
		release func()
	}
	for name, make := range map[string]func() holder{
		"Mutex": func() holder {
			var m cosync.Mutex
			return holder{m.Lock, m.Unlock}
		},
		"Semaphore": func() holder {
			s := cosync.NewSemaphore(1)
			return holder{s.Acquire, s.Release}
		},
		"Limiter": func() holder {
			l := cosync.NewLimiter(1)
			return holder{l.Acquire, l.Release}
		},
		"Queue": func() holder {
			q := cosync.NewQueue[int](1)
			return holder{func(ctx context.Context) error { return q.Put(ctx, 1) }, func() { q.TryGet() }}
		},
		"Channel": func() holder {
			tx, rx := cosync.NewChannel[int](1)
			return holder{func(ctx context.Context) error { return tx.Send(ctx, 1) }, func() { rx.TryReceive() }}
		},
		"Inbox": func() holder {
			b := cosync.NewInbox[int](1)
			return holder{func(ctx context.Context) error { return b.Put(ctx, 1) }, func() { b.TryGet() }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for calls := range 130 {
				h := make()
				inside := 0
				simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
					hold := func(ctx context.Context) error {
						if err := h.acquire(ctx); err != nil {
							return err
						}
						if inside++; inside > 1 {
							t.Errorf("%d inside after %d calls", inside, calls)
						}
						err := settle(ctx)
						inside--
						h.release()
						return err
					}
					n.Go(func(ctx context.Context) error {
						for range calls {
							if err := spindle.Checkpoint(ctx); err != nil {
								return err
							}
						}
						return hold(ctx)
					})
					n.Go(hold)
					return nil
				})
			}
		})
	}
}
