package stream_test

import (
	"context"
	"testing"

	"github.com/spindleloop/spindle"
)

// TestBusyTaskYieldsToOthers checks that a task lets others run even if its calls
// never have to wait.
func TestBusyTaskYieldsToOthers(t *testing.T) {
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
						if i%100 == 99 { // keeps the socket writable
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
