package cosync_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
)

func TestSelectTakesWhatIsReady(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		tx, rx := cosync.NewChannel[int](2)
		f := spindle.NewFuture[int](ctx)
		v := 0
		check := func(want int, wantErr error, cases ...cosync.Case) {
			t.Helper()
			if i, err := cosync.Select(ctx, cases...); i != want || err != wantErr {
				t.Errorf("case %d, %v, want %d, %v", i, err, want, wantErr)
			}
		}
		check(1, nil, cosync.Recv(rx, &v), cosync.Send(tx, 7), cosync.After(0))
		check(0, nil, cosync.Recv(rx, &v), cosync.Send(tx, 8))
		if v != 7 {
			t.Errorf("received %d", v)
		}
		check(1, nil, cosync.Recv(rx, &v), cosync.After(0)) // like default in Go's select
		f.Reject(errors.New("boom"))
		check(1, nil, cosync.Recv(rx, &v), cosync.Done(f))
		check(0, nil, cosync.Send(tx, 9), cosync.Send(tx, 10)) // only one
		if s := tx.Statistics(); s.Used != 1 {
			t.Errorf("%+v", s)
		}
		tx.Close()
		check(0, cosync.ErrClosed, cosync.Send(tx, 1), cosync.Recv(rx, &v))
		check(0, nil, cosync.Recv(rx, &v))
		check(0, io.EOF, cosync.Recv(rx, &v))
		if v != 9 {
			t.Errorf("at the end v is %d", v)
		}
		const noCases = "cosync: Select without cases, or with a nil Case"
		mustPanic(t, noCases, func() { cosync.Select(ctx, nil) })
		mustPanic(t, noCases, func() { cosync.Select(ctx) })
		mustPanic(t, "cosync: Recv from a nil Receiver or into nil", func() { cosync.Recv(rx, nil) })
		return nil
	})
}

func TestSelectWaitsForTheFirst(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		tx, rx := cosync.NewChannel[int](0)
		f := spindle.NewFuture[int](ctx)
		done := cosync.Done(f)
		v := 0
		begin := spindle.Now(ctx)
		n.Go(func(ctx context.Context) error {
			if err := spindle.Sleep(ctx, 90*time.Second); err != nil {
				return err
			}
			if err := tx.Send(ctx, 5); err != nil {
				return err
			}
			if err := spindle.Sleep(ctx, 30*time.Second); err != nil {
				return err
			}
			f.Resolve(1)
			if err := spindle.Sleep(ctx, 30*time.Second); err != nil {
				return err
			}
			tx.Close()
			return nil
		})
		for _, want := range []struct {
			index int
			at    time.Duration
			err   error
		}{
			{2, 60 * time.Second, nil},  // the timer
			{0, 90 * time.Second, nil},  // the channel
			{1, 120 * time.Second, nil}, // the future
		} {
			i, err := cosync.Select(ctx, cosync.Recv(rx, &v), done, cosync.After(time.Minute))
			if at := spindle.Now(ctx).Sub(begin); i != want.index || err != want.err || at != want.at {
				t.Errorf("case %d, %v at %v, want %+v", i, err, at, want)
			}
		}
		i, err := cosync.Select(ctx, cosync.After(time.Hour), cosync.Recv(rx, &v))
		if i != 1 || err != io.EOF || v != 5 {
			t.Errorf("case %d, %v, value %d", i, err, v)
		}
		return nil
	})
}

// TestSelectAgainstSelect: tasks send or receive on the same channel, whichever is possible
// first. No task receives its own value, and each value arrives once.
func TestSelectAgainstSelect(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		tx, rx := cosync.NewChannel[int](0)
		sent, received := 0, 0
		for i := range 10 {
			n.Go(func(ctx context.Context) error {
				v := 0
				which, err := cosync.Select(ctx, cosync.Recv(rx, &v), cosync.Send(tx, i+1))
				if which == 0 {
					received += v
				} else {
					sent += i + 1
				}
				return err
			})
		}
		if err := settle(ctx); err != nil {
			return err
		}
		if s := tx.Statistics(); sent != received || sent == 0 || s.Putting+s.Waiting != 0 {
			t.Errorf("sent %d, received %d, %+v", sent, received, s)
		}
		return nil
	})
}

func TestCancelledSelectLeavesNothingBehind(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		tx, rx := cosync.NewChannel[int](0)
		f := spindle.NewFuture[int](ctx)
		v := 0
		recv := cosync.Recv(rx, &v)
		const inUse = "cosync: Select with a Case that is already in use"
		mustPanic(t, inUse, func() { cosync.Select(ctx, recv, recv) })
		expired, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) error {
			n.Go(func(ctx context.Context) error {
				mustPanic(t, inUse, func() { cosync.Select(ctx, recv) })
				return nil
			})
			i, err := cosync.Select(ctx, recv, cosync.Send(tx, 1), cosync.Done(f), cosync.After(time.Hour))
			if i != -1 || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("case %d, %v", i, err)
			}
			return err
		})
		if !expired || err != nil {
			t.Errorf("expired %v, %v", expired, err)
		}
		if s := tx.Statistics(); s.Putting+s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
		f.Resolve(1) // wakes no task
		begin := spindle.Now(ctx)
		if err := settle(ctx); err != nil {
			return err
		}
		if i, err := cosync.Select(ctx, recv, cosync.After(2*time.Hour)); i != 1 || err != nil || spindle.Now(ctx).Sub(begin) != 2*time.Hour {
			t.Errorf("case %d, %v after %v", i, err, spindle.Now(ctx).Sub(begin))
		}
		return nil
	})
}
