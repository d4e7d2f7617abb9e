package stream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

// TestCloseWakesEverybody: those who wait for the socket, and those in line.
func TestCloseWakesEverybody(t *testing.T) {
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

// TestClosedConn: every call says so, as net's would.
func TestClosedConn(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, _ := pair(t, ctx, "tcp")
		local, remote := a.LocalAddr().String(), a.RemoteAddr().String()
		check(t, a.SetReadDeadline(time.Unix(1, 0))) // which counts no more
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

// TestAddresses are those of net, of a connection that nobody asked before it was
// closed at least in their kind.
func TestAddresses(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "tcp")
		if a.LocalAddr().String() != b.RemoteAddr().String() || b.LocalAddr().String() != a.RemoteAddr().String() {
			t.Errorf("%v and %v, %v and %v", a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr())
		}
		if _, ok := a.LocalAddr().(*net.TCPAddr); !ok || a.LocalAddr().Network() != "tcp" {
			t.Errorf("%T", a.LocalAddr())
		}
		c, d := pair(t, ctx, "unix")
		if c.RemoteAddr().Network() != "unix" || c.RemoteAddr().String() != d.LocalAddr().String() {
			t.Errorf("%v and %v", c.RemoteAddr(), d.LocalAddr())
		}
		e, _ := pair(t, ctx, "tcp")
		f, _ := pair(t, ctx, "unix")
		e.Close()
		f.Close()
		if _, ok := e.RemoteAddr().(*net.TCPAddr); !ok {
			t.Errorf("of a closed one: %T", e.RemoteAddr())
		}
		if _, ok := f.RemoteAddr().(*net.UnixAddr); !ok {
			t.Errorf("of a closed one: %T", f.RemoteAddr())
		}
	})
}

// TestCancelledReadConsumesNothing: also if the bytes come with the cancellation.
func TestCancelledReadConsumesNothing(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "tcp")
		got := ""
		for _, late := range []bool{false, true} {
			check(t, spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
					n.Go(func(ctx context.Context) error {
						p := make([]byte, 10)
						m, err := a.Read(p)
						got += string(p[:m])
						if m > 0 != (err == nil) {
							t.Errorf("%d bytes and %v", m, err)
						}
						if late {
							return err // it was in time
						}
						return onlyCanceled(err)
					})
					waiting(t, ctx, 1, "Conn.Read")
					if late {
						_, err := b.Write([]byte("c"))
						check(t, err)
						until(t, ctx, func() bool { return len(waiters(ctx, "Conn.Read")) == 0 })
					}
					s.Cancel(nil)
				})
				return nil
			}))
			if !late {
				_, err := b.Write([]byte("ab"))
				check(t, err)
				got += string(receive(t, a, 2))
			}
		}
		if got != "abc" {
			t.Errorf("%q was read", got)
		}
	})
}

// TestCancelledWriteTellsHowMuchWentOut: so much arrives, and no more.
func TestCancelledWriteTellsHowMuchWentOut(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		for _, network := range networks {
			a, b := pair(t, ctx, network)
			sent := fill(t, ctx, a)
			together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
				n.Go(func(ctx context.Context) error {
					defer a.Close()
					m, err := a.Write(pattern(1 << 20)[sent%251:])
					sent += m
					return err
				})
				got, err := io.ReadAll(b)
				check(t, err)
				same(t, got, pattern(sent))
			})
		}
	})
}

// TestPanicInAWaitLeavesTheConnUsable: a task that has locked its thread may not
// wait, and says so; the next one may.
func TestPanicInAWaitLeavesTheConnUsable(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "tcp")
		func() {
			defer func() {
				if v, _ := recover().(string); !strings.Contains(v, "LockOSThread") {
					t.Errorf("no panic that tells why: %v", v)
				}
			}()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			a.Read(make([]byte, 1))
		}()
		_, err := b.Write([]byte("x"))
		check(t, err)
		receive(t, a, 1)
	})
}

// TestDeadlines: one that has passed, one that comes, one that is moved while
// somebody waits; and it is for as long as it is set.
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
			t.Error("it came early")
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
				for range 2 { // one of them in line
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
			t.Errorf("%d timers are left", n)
		}
	})
}

// TestDeadlineTakenBack: a wait goes on when its deadline is taken back.
func TestDeadlineTakenBack(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "tcp")
		check(t, a.SetDeadline(time.Now().Add(20*time.Millisecond)))
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			n.Go(func(ctx context.Context) error {
				_, err := a.Read(make([]byte, 1))
				return err
			})
			waiting(t, ctx, 1, "Conn.Read")
			check(t, a.SetDeadline(time.Time{}))
			if n := spindle.LoopOf(ctx).Stats().Timers; n != 0 {
				t.Errorf("%d timers are left", n)
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
