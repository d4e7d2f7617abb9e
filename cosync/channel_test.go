package cosync_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
)

func TestUnbufferedHandsOver(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		tx, rx := cosync.NewChannel[string](0)
		sent := time.Duration(-1)
		n.Go(func(ctx context.Context) error {
			err := tx.Send(ctx, "hello")
			sent = spindle.LoopOf(ctx).Time()
			return err
		})
		if err := spindle.Sleep(ctx, time.Second); err != nil {
			return err
		}
		if sent >= 0 || rx.Statistics().Putting != 1 {
			t.Error("Send returned before Receive was called")
		}
		if v, err := rx.Receive(ctx); v != "hello" || err != nil {
			t.Errorf("received %q, %v", v, err)
		}
		if err := settle(ctx); err != nil {
			return err
		}
		if sent != time.Second {
			t.Errorf("Send returned at %v", sent)
		}
		if err := tx.TrySend("no receiver waits"); err != cosync.ErrWouldBlock {
			t.Errorf("TrySend: %v", err)
		}
		if _, err := rx.TryReceive(); err != cosync.ErrWouldBlock {
			t.Errorf("TryReceive: %v", err)
		}
		return nil
	})
	mustPanic(t, "cosync: NewChannel with a negative capacity", func() { cosync.NewChannel[int](-1) })
}

func TestChannelEndsWithItsLastSender(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		tx, rx := cosync.NewChannel[int](3)
		for i := range 3 {
			clone := tx.Clone()
			n.Go(func(ctx context.Context) error {
				defer clone.Close()
				for k := range 4 {
					if err := clone.Send(ctx, 10*i+k); err != nil {
						return err
					}
				}
				return nil
			})
		}
		tx.Close()
		tx.Close() // does nothing
		if err := tx.Send(ctx, 1); err != cosync.ErrClosed {
			t.Errorf("Send of a closed sender: %v", err)
		}
		mustPanic(t, "cosync: Clone of a closed Sender", func() { tx.Clone() })
		var got []int
		for v, err := range rx.All(ctx) {
			if err != nil {
				return err
			}
			got = append(got, v)
		}
		slices.Sort(got)
		if want := []int{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23}; !slices.Equal(got, want) {
			t.Errorf("received %v", got)
		}
		if _, err := rx.Receive(ctx); err != io.EOF {
			t.Errorf("after the end: %v", err)
		}
		return nil
	})
}

// TestCloseWithWaiters closes ends of channels while tasks wait.
func TestCloseWithWaiters(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		ended := 0
		expect := func(want error, wait func(ctx context.Context) error) {
			n.Go(func(ctx context.Context) error {
				if err := wait(ctx); err != want {
					t.Errorf("%v, want %v", err, want)
				}
				ended++
				return nil
			})
		}
		receive := func(r *cosync.Receiver[int]) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := r.Receive(ctx)
				return err
			}
		}
		send := func(s *cosync.Sender[int]) func(context.Context) error {
			return func(ctx context.Context) error { return s.Send(ctx, 1) }
		}
		tx1, rx1 := cosync.NewChannel[int](0)
		expect(io.EOF, receive(rx1)) // the last sender is closed
		own := rx1.Clone()
		expect(cosync.ErrClosed, receive(own)) // this receiver is closed
		expect(io.EOF, receive(rx1))
		tx2, rx2 := cosync.NewChannel[int](0)
		expect(cosync.ErrBroken, send(tx2)) // the last receiver is closed
		mine := tx2.Clone()
		expect(cosync.ErrClosed, send(mine)) // this sender is closed
		expect(cosync.ErrBroken, func(ctx context.Context) error {
			_, err := cosync.Select(ctx, cosync.Send(tx2, 1), cosync.Send(tx2, 2))
			return err
		})
		expect(cosync.ErrClosed, func(ctx context.Context) error {
			_, err := cosync.Select(ctx, cosync.Send(mine, 1), cosync.Send(tx2, 2), cosync.Send(mine, 2))
			return err
		})
		if err := settle(ctx); err != nil {
			return err
		}
		own.Close()
		mine.Close()
		if err := settle(ctx); err != nil {
			return err
		}
		if ended != 3 {
			t.Errorf("%d ended", ended)
		}
		tx1.Close()
		rx2.Close()
		if err := tx2.Send(ctx, 1); err != cosync.ErrBroken || tx2.TrySend(1) != cosync.ErrBroken {
			t.Errorf("Send without a receiver: %v", err)
		}
		if err := settle(ctx); err != nil {
			return err
		}
		if ended != 7 {
			t.Errorf("%d ended", ended)
		}
		return nil
	})
}

// TestReceiveAfterTheLastSender: values in the channel can still be received. They are
// dropped only when the last receiver is closed.
func TestReceiveAfterTheLastSender(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		tx, rx := cosync.NewChannel[int](2)
		tx.TrySend(1)
		tx.TrySend(2)
		tx.Close()
		if v, err := rx.Receive(ctx); v != 1 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
		want := cosync.Statistics{Used: 1, Capacity: 2, Receivers: 1}
		if rx.Statistics() != want || tx.Statistics() != want {
			t.Errorf("%+v", rx.Statistics())
		}
		rx.Close()
		if _, err := rx.Receive(ctx); err != cosync.ErrClosed || rx.Statistics().Used != 0 {
			t.Errorf("closed: %v", err)
		}
		mustPanic(t, "cosync: Clone of a closed Receiver", func() { rx.Clone() })
		return nil
	})
}

// TestAllYieldsTheCancellation: a loop over a channel distinguishes a cancellation from the
// end.
func TestAllYieldsTheCancellation(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		_, rx := cosync.NewChannel[int](0)
		var last error
		_, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) error {
			for _, err := range rx.All(ctx) {
				last = err
			}
			return last
		})
		if !errors.Is(last, context.DeadlineExceeded) {
			t.Errorf("the loop ended with %v", last)
		}
		return err
	})
}

// TestSendThatNeedNotWaitIsCancelled: a call that could complete at once fails in a
// cancelled scope, with any context that the task has, and succeeds again outside of the
// scope or in its shield.
func TestSendThatNeedNotWaitIsCancelled(t *testing.T) {
	simulate(t, func(outer context.Context, n *spindle.Nursery) error {
		tx, rx := cosync.NewChannel[int](8)
		send := func(where string, ctx context.Context, want error) {
			t.Helper()
			if err := tx.Send(ctx, 1); !errors.Is(err, want) {
				t.Errorf("%s: Send: %v, want %v", where, err, want)
			}
			if _, err := rx.TryReceive(); (err == nil) != (want == nil) {
				t.Errorf("%s: TryReceive: %v", where, err)
			}
		}
		send("before", outer, nil)
		send("before", outer, nil)
		err := spindle.WithScope(outer, func(ctx context.Context, s *spindle.Scope) error {
			send("inside", ctx, nil)
			s.Cancel(nil)
			send("cancelled", ctx, context.Canceled)
			send("cancelled, outer context", outer, context.Canceled)
			s.SetShield(true)
			send("shielded from outside only", ctx, context.Canceled)
			return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				send("inside a cancelled one", ctx, context.Canceled)
				s.SetShield(true)
				send("shielded", ctx, nil)
				send("shielded", ctx, nil)
				s.SetShield(false)
				send("no longer shielded", ctx, context.Canceled)
				return spindle.Shield(ctx, func(ctx context.Context) error {
					send("in a shield", ctx, nil)
					return nil
				})
			})
		})
		send("after", outer, nil)
		err = errors.Join(err, spindle.WithScope(outer, func(ctx context.Context, s *spindle.Scope) error {
			send("again", ctx, nil)
			n.Go(func(context.Context) error { s.Cancel(nil); return nil })
			if err := spindle.Yield(ctx); err != nil {
				t.Errorf("Yield: %v", err)
			}
			send("cancelled by another task", ctx, context.Canceled)
			return nil
		}))
		send("in the end", outer, nil)
		n.Scope().Cancel(nil)
		n.Go(func(ctx context.Context) error {
			send("in a task that begins cancelled", ctx, context.Canceled)
			return nil
		})
		return err
	})
}
