package stream_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/spindleloop/spindle"
)

// TestCancelledCallsDoNothing: in a scope that is cancelled, no call does what it
// could do at once.
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

// TestNobodyKeepsTheLoop: a task whose calls never have to wait lets others run.
func TestNobodyKeepsTheLoop(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		const many = 5000
		a, b := pair(t, ctx, "unix")
		p, q := packets(t, ctx, "unixgram"), packets(t, ctx, "unixgram")
		byOne := make([]byte, 1)
		calls := map[string]func(){
			"Write":  func() { b.Write([]byte("x")) },
			"Read":   func() { a.Read(byOne) },
			"Writev": func() { b.Writev([][]byte{[]byte("x")}) },
			"packet": func() {
				q.WriteTo([]byte("x"), p.LocalAddr())
				p.Read(byOne)
			},
		}
		for _, name := range []string{"Write", "Read", "Writev", "packet"} {
			others := 0
			together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
				ended := false
				n.Go(func(ctx context.Context) error {
					for !ended {
						others++
						if err := spindle.Yield(ctx); err != nil {
							return err
						}
					}
					return nil
				})
				if name == "Read" {
					_, err := b.Write(make([]byte, many))
					check(t, err)
					others = 0
				}
				for i := range many {
					calls[name]()
					if name == "Writev" || name == "Write" {
						if i%100 == 99 { // so that there is always room
							receive(t, a, 100)
						}
					}
				}
				ended = true
			})
			if others < many/100 {
				t.Errorf("%s: others ran %d times", name, others)
			}
		}
	})
}
