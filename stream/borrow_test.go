package stream_test

import (
	"context"
	"io"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// TestBorrowedBytesAreCopiedBeforeAWait checks that a Write of any slice of the
// borrowed bytes sends them unchanged, although other tasks read into the shared
// buffer while the Write waits.
func TestBorrowedBytesAreCopiedBeforeAWait(t *testing.T) {
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
						writers := 1
						if inLine {
							writers = 2
						}
						waiting(t, ctx, writers, "Conn.Write")
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

// TestUnreadBytesDoNotKeepTheLoopBusy checks that a level-triggered backend reports
// unread bytes once, even if the last reader was cancelled.
func TestUnreadBytesDoNotKeepTheLoopBusy(t *testing.T) {
	for _, backend := range short.Backends() {
		onBackend(t, backend, func(t *testing.T, ctx context.Context) {
			a, b := pair(t, ctx, "unix")
			check(t, spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
					n.Go(func(context.Context) error {
						defer s.Cancel(nil) // even if the other task runs first
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
			_, err := b.Write([]byte("y")) // no task reads it
			check(t, err)
			quiet(t, ctx, 5)
			receive(t, a, 1)
		})
	}
}

// TestBytesBetweenReadsDoNotKeepTheLoopBusy checks the same for bytes that arrive
// while a reader is busy elsewhere, whether or not its last Read found the socket
// drained.
func TestBytesBetweenReadsDoNotKeepTheLoopBusy(t *testing.T) {
	for _, backend := range short.Backends() {
		onBackend(t, backend, func(t *testing.T, ctx context.Context) {
			a, b := pair(t, ctx, "tcp")
			for range 3 {
				together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
					n.Go(func(context.Context) error {
						_, err := a.Read(make([]byte, 10))
						return err
					})
					waiting(t, ctx, 1, "Conn.Read")
					_, err := b.Write([]byte("x"))
					check(t, err)
				})
				_, err := b.Write([]byte("y")) // no task reads it
				check(t, err)
				quiet(t, ctx, 5)
				if n, err := a.Read(make([]byte, 10)); n != 1 || err != nil {
					t.Errorf("Read: %d, %v", n, err)
				}
			}
		})
	}
}

// TestWritableSocketDoesNotKeepTheLoopBusy checks that a level-triggered backend
// reports writability only while a task waits for it.
func TestWritableSocketDoesNotKeepTheLoopBusy(t *testing.T) {
	for _, backend := range short.Backends() {
		onBackend(t, backend, func(t *testing.T, ctx context.Context) {
			a, b := pair(t, ctx, "unix")
			narrow(t, a)
			writes := map[string]func(){
				"Write":  func() { a.Write(pattern(1 << 20)) },
				"Writev": func() { a.Writev([][]byte{pattern(1 << 20), nil}) },
			}
			for _, write := range writes {
				together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
					n.Go(func(context.Context) error { write(); return nil })
					receive(t, b, 1<<20)
				})
				quiet(t, ctx, 5)
			}
			receive(t, b, fill(t, ctx, a))
			quiet(t, ctx, 5)
			copied(t, ctx, "unix", 4<<20, false, func(to, from *stream.Conn) (n int64, err error) {
				n, err = io.Copy(to, from)
				quiet(t, ctx, 20)
				return n, err
			})
		})
	}
}

// quiet plays ping-pong and checks that there are hardly any other events.
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
		t.Errorf("%s: %d events for %d rounds", spindle.LoopOf(ctx).Internal().Kernel().Name(), n, rounds)
	}
}

// TestDebugPoisonsBorrowedBytes checks that in debug mode, borrowed bytes that are
// kept beyond the next borrow are overwritten.
func TestDebugPoisonsBorrowedBytes(t *testing.T) {
	for _, debug := range []bool{true, false} {
		run(t, spindle.Options{Loop: loop.Options{Debug: debug}}, func(ctx context.Context) error {
			a, b := pair(t, ctx, "unix")
			_, err := a.Write([]byte("hello"))
			check(t, err)
			kept, err := b.ReadBorrow()
			check(t, err)
			_, err = a.Write([]byte("x"))
			check(t, err)
			if string(kept) != "hello" {
				t.Errorf("borrowed: %q", kept)
			}
			_, err = b.ReadBorrow()
			check(t, err)
			want := "xello"
			if debug {
				want = "x\xdb\xdb\xdb\xdb"
			}
			if string(kept) != want {
				t.Errorf("debug %v: kept %q", debug, kept)
			}
			check(t, a.Close())
			return b.Close()
		})
	}
}
