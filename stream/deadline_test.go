package stream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
)

// TestDeadlines covers a deadline in the past, one in the future, and one that is
// moved during a wait. A deadline holds until it is changed.
func TestDeadlines(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "tcp")
		now := func() time.Time { return time.Now() }
		late := func(what string, err error) {
			t.Helper()
			var ne net.Error
			if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &ne) || !ne.Timeout() {
				t.Errorf("%s: %v", what, err)
			}
		}
		read := func() error { _, err := a.Read(make([]byte, 1)); return err }
		write := func() error { _, err := a.Write(pattern(16 << 20)); return err }

		begin := now()
		check(t, a.SetReadDeadline(begin.Add(5*time.Millisecond)))
		late("a deadline that comes", read())
		if time.Since(begin) < 5*time.Millisecond {
			t.Error("the deadline passed early")
		}
		late("the same, once more", read())
		check(t, a.SetReadDeadline(now().Add(-time.Second)))
		_, err := b.Write([]byte("x"))
		check(t, err)
		late("one that has passed, and something to read", read())
		check(t, a.SetReadDeadline(time.Time{}))
		check(t, read())

		check(t, a.SetWriteDeadline(now().Add(5*time.Millisecond)))
		late("writing", write())
		check(t, a.SetWriteDeadline(time.Time{}))

		moves := []struct {
			name string
			call func() error
			wait string
			set  func(time.Time) error
		}{
			{"read", read, "Conn.Read", a.SetReadDeadline},
			{"write", write, "Conn.Write", a.SetWriteDeadline},
			{"both, reading", read, "Conn.Read", a.SetDeadline},
			{"both, writing", write, "Conn.Write", a.SetDeadline},
		}
		for _, m := range moves {
			check(t, m.set(now().Add(time.Hour)))
			together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
				for range 2 { // the second one is queued
					n.Go(func(ctx context.Context) error { late(m.name, m.call()); return nil })
				}
				waiting(t, ctx, 2, m.wait)
				check(t, m.set(now().Add(2*time.Hour)))
				check(t, m.set(time.Time{}))
				check(t, m.set(now().Add(time.Millisecond)))
			})
			check(t, m.set(time.Time{}))
		}
		check(t, a.Close())
		if n := spindle.LoopOf(ctx).Stats().Timers; n != 0 {
			t.Errorf("%d timers remain", n)
		}
	})
}

// TestDeadlineCleared checks that a wait continues when its deadline is cleared.
func TestDeadlineCleared(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "tcp")
		check(t, a.SetDeadline(time.Now().Add(time.Hour)))
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			n.Go(func(ctx context.Context) error {
				_, err := a.Read(make([]byte, 1))
				return err
			})
			waiting(t, ctx, 1, "Conn.Read")
			check(t, a.SetDeadline(time.Time{}))
			if n := spindle.LoopOf(ctx).Stats().Timers; n != 0 {
				t.Errorf("%d timers remain", n)
			}
			_, err := b.Write([]byte("x"))
			check(t, err)
		})
		check(t, a.SetDeadline(time.Now().Add(time.Hour)))
		check(t, a.Close())
		if n := spindle.LoopOf(ctx).Stats().Timers; n != 0 {
			t.Errorf("%d timers outlive the connection", n)
		}
	})
}

// TestCopyDeadlines checks deadlines during large copies: each passes while the copy
// waits on the other side.
func TestCopyDeadlines(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		source, in := pair(t, ctx, "unix")
		out, sink := pair(t, ctx, "unix")
		copied := 0
		copying := func(n *spindle.Nursery) {
			n.Go(func(context.Context) error {
				_, err := io.Copy(out, in)
				want(t, "Copy", err, os.ErrDeadlineExceeded)
				copied++
				return nil
			})
		}
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			copying(n)
			_, err := source.Write(make([]byte, 64<<10))
			check(t, err)
			receive(t, sink, 64<<10)
			waiting(t, ctx, 1, "Conn.Read")
			check(t, out.SetWriteDeadline(time.Unix(1, 0)))
			_, err = source.Write(make([]byte, 64<<10))
			check(t, err)
		})
		check(t, out.SetWriteDeadline(time.Time{}))
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			copying(n)
			n.Go(func(context.Context) error { source.Write(make([]byte, 4<<20)); return nil })
			waiting(t, ctx, 2, "Conn.Write")
			check(t, in.SetReadDeadline(time.Unix(1, 0)))
			n.Go(func(context.Context) error { _, err := io.Copy(io.Discard, sink); return err })
			until.InTask(ctx, t, func() bool { return copied == 2 })
			waiting(t, ctx, 1, "Conn.Write") // the source's
			waiting(t, ctx, 1, "Conn.Read")
			check(t, in.Close())
			check(t, out.Close())
		})
	})
}
