package stream_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
)

// TestCancelledReadConsumesNothing covers bytes that arrive together with the
// cancellation.
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
							return err // the bytes arrived first
						}
						return onlyCanceled(err)
					})
					waiting(t, ctx, 1, "Conn.Read")
					if late {
						_, err := b.Write([]byte("c"))
						check(t, err)
						until.InTask(ctx, t, func() bool { return len(waiters(ctx, "Conn.Read")) == 0 })
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

// TestCancelledWriteReportsBytesWritten checks that as many bytes arrive as Write
// returned.
func TestCancelledWriteReportsBytesWritten(t *testing.T) {
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

// TestPanicInAWaitLeavesTheConnUsable: a task that has locked its thread panics when
// it waits. The next task can use the Conn.
func TestPanicInAWaitLeavesTheConnUsable(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "tcp")
		func() {
			defer func() {
				if v, _ := recover().(string); !strings.Contains(v, "LockOSThread") {
					t.Errorf("no panic with the reason: %v", v)
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

// TestCancelledCallsDoNothing checks that in a cancelled scope no call does even
// what it could do at once.
func TestCancelledCallsDoNothing(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "unix")
		p, q := packets(t, ctx, "unixgram"), packets(t, ctx, "unixgram")
		ln := listen(t, ctx, "unix")
		_, err := b.Write([]byte("x"))
		check(t, err)
		_, err = q.WriteTo([]byte("x"), p.LocalAddr())
		check(t, err)
		calls := map[string]func() error{
			"Read":       func() error { _, err := a.Read(make([]byte, 1)); return err },
			"ReadBorrow": func() error { _, err := a.ReadBorrow(); return err },
			"Write":      func() error { _, err := a.Write([]byte("y")); return err },
			"Writev":     func() error { _, err := a.Writev([][]byte{[]byte("y")}); return err },
			"WriteTo":    func() error { _, err := a.WriteTo(io.Discard); return err },
			"pump":       func() error { _, err := a.WriteTo(a); return err },
			"Accept":     func() error { _, err := ln.Accept(); return err },
			"ReadFrom":   func() error { _, _, err := p.ReadFrom(make([]byte, 1)); return err },
			"SendTo":     func() error { _, err := p.WriteTo([]byte("y"), q.LocalAddr()); return err },
		}
		for name, call := range calls {
			check(t, spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				s.Cancel(nil)
				if err := call(); !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v", name, err)
				}
				return nil
			}))
		}
		receive(t, a, 1)
		if n, err := p.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		a.Close()
		if _, err := b.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("something was written: %v", err)
		}
	})
}
