package stream_test

import (
	"context"
	"io"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
)

// TestLentMemoryIsCopiedBeforeAWait: what was lent is written, in whatever slice of
// it, although others read into the same memory while the Write waits.
func TestLentMemoryIsCopiedBeforeAWait(t *testing.T) {
	slices := map[string]func([]byte) []byte{
		"as it is":  func(p []byte) []byte { return p },
		"clipped":   func(p []byte) []byte { return p[:len(p):len(p)] },
		"its end":   func(p []byte) []byte { return p[len(p)/2:] },
		"its begin": func(p []byte) []byte { return p[:len(p)-1] },
	}
	for name, slice := range slices {
		for _, inLine := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				on(t, func(t *testing.T, ctx context.Context) {
					source, in := pair(t, ctx, "unix")
					out, sink := pair(t, ctx, "unix")
					noise, ear := pair(t, ctx, "unix")
					check(t, out.SetWriteBuffer(1))
					_, err := source.Write(pattern(32 << 10))
					check(t, err)
					together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
						var expected []byte
						if inLine {
							first := make([]byte, 16<<10)
							expected = append(expected, first...)
							n.Go(func(context.Context) error { _, err := out.Write(first); return err })
							waiting(t, ctx, 1, "Conn.Write")
						}
						n.Go(func(context.Context) error {
							p, err := in.ReadBorrow()
							p = slice(p)
							expected = append(expected, p...)
							if err == nil {
								_, err = out.Write(p)
							}
							out.CloseWrite()
							return err
						})
						waiting(t, ctx, 1, "Conn.Write")
						_, err := noise.Write(make([]byte, 64<<10))
						check(t, err)
						_, err = ear.ReadBorrow()
						check(t, err)
						got, err := io.ReadAll(sink)
						check(t, err)
						same(t, got, expected)
					})
				})
			})
		}
	}
}

// TestUnreadBytesDoNotKeepTheLoopBusy: on a system without edges, bytes that
// nobody reads are told of once, also if the last who wanted to was cancelled.
func TestUnreadBytesDoNotKeepTheLoopBusy(t *testing.T) {
	for _, backend := range kernel.Backends() {
		onBackend(t, backend, func(t *testing.T, ctx context.Context) {
			a, b := pair(t, ctx, "unix")
			check(t, spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
					n.Go(func(context.Context) error {
						defer s.Cancel(nil) // when the other has its turn already
						_, err := a.Read(make([]byte, 10))
						return err
					})
					n.Go(func(context.Context) error {
						_, err := a.Read(make([]byte, 10))
						return onlyCanceled(err)
					})
					waiting(t, ctx, 2, "Conn.Read")
					_, err := b.Write([]byte("x"))
					check(t, err)
				})
				return nil
			}))
			_, err := b.Write([]byte("y")) // for nobody
			check(t, err)
			quiet(t, ctx, 5)
			receive(t, a, 1)
		})
	}
}

// quiet plays ping-pong, and checks that there are hardly any other events.
func quiet(t *testing.T, ctx context.Context, others uint64) {
	t.Helper()
	ping, pong := pair(t, ctx, "unix")
	defer ping.Close()
	defer pong.Close()
	before := spindle.LoopOf(ctx).Stats().Events
	const rounds = 20
	together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
		n.Go(func(context.Context) error {
			for range rounds {
				receive(t, pong, 1)
				pong.Write([]byte("y"))
			}
			return nil
		})
		for range rounds {
			ping.Write([]byte("x"))
			receive(t, ping, 1)
		}
	})
	if n := spindle.LoopOf(ctx).Stats().Events - before; n > 2*rounds+others {
		t.Errorf("%s: %d events for %d rounds", spindle.LoopOf(ctx).Backend(), n, rounds)
	}
}
