package stream_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

// TestCloseEndsPendingCalls covers calls that wait for the socket and calls in the
// queue.
func TestCloseEndsPendingCalls(t *testing.T) {
	for _, way := range []struct {
		name  string
		close func(ctx context.Context, c *stream.Conn) error
	}{
		{"task", func(_ context.Context, c *stream.Conn) error { return c.Close() }},
		{"callback", func(ctx context.Context, c *stream.Conn) error {
			spindle.LoopOf(ctx).CallSoon(func() { c.Close() })
			return nil
		}},
		{"goroutine", func(ctx context.Context, c *stream.Conn) error {
			_, err := spindle.Blocking(ctx, func() (int, error) { return 0, c.Close() })
			return err
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			on(t, func(t *testing.T, ctx context.Context) {
				a, _ := pair(t, ctx, "tcp")
				together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
					for range 2 {
						n.Go(func(ctx context.Context) error {
							_, err := a.Read(make([]byte, 1))
							want(t, "waiting Read", err, net.ErrClosed)
							return nil
						})
						n.Go(func(ctx context.Context) error {
							_, err := a.Write(pattern(16 << 20))
							want(t, "waiting Write", err, net.ErrClosed)
							return nil
						})
					}
					waiting(t, ctx, 2, "Conn.Read")
					waiting(t, ctx, 2, "Conn.Write")
					check(t, way.close(ctx, a))
				})
			})
		})
	}
}

// TestClosedConn checks that every call fails as net's would.
func TestClosedConn(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, _ := pair(t, ctx, "tcp")
		local, remote := a.LocalAddr().String(), a.RemoteAddr().String()
		check(t, a.SetReadDeadline(time.Unix(1, 0))) // ErrClosed takes precedence over it
		check(t, a.SetWriteDeadline(time.Unix(1, 0)))
		check(t, a.Close())
		calls := map[string]func() error{
			"Read":             func() error { _, err := a.Read(make([]byte, 1)); return err },
			"ReadBorrow":       func() error { _, err := a.ReadBorrow(); return err },
			"Write":            func() error { _, err := a.Write([]byte("x")); return err },
			"Close":            a.Close,
			"CloseRead":        a.CloseRead,
			"CloseWrite":       a.CloseWrite,
			"SetDeadline":      func() error { return a.SetDeadline(time.Time{}) },
			"SetReadDeadline":  func() error { return a.SetReadDeadline(time.Time{}) },
			"SetWriteDeadline": func() error { return a.SetWriteDeadline(time.Time{}) },
			"SetNoDelay":       func() error { return a.SetNoDelay(true) },
			"SetLinger":        func() error { return a.SetLinger(0) },
		}
		for name, call := range calls {
			err := call()
			var op *net.OpError
			if !errors.Is(err, net.ErrClosed) || !errors.As(err, &op) || op.Net != "tcp" || op.Timeout() {
				t.Errorf("%s: %v", name, err)
			}
		}
		if a.LocalAddr().String() != local || a.RemoteAddr().String() != remote {
			t.Errorf("addresses %v and %v", a.LocalAddr(), a.RemoteAddr())
		}
	})
}
