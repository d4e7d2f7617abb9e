package stream_test

import (
	"context"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

// TestIdleCopyNeedsNoBuffer: many that wait for more take less than a buffer each.
func TestIdleCopyNeedsNoBuffer(t *testing.T) {
	onBackend(t, "", func(t *testing.T, ctx context.Context) {
		for name, to := range map[string]func(c *stream.Conn) io.Writer{
			"a connection":   func(c *stream.Conn) io.Writer { return c },
			"another writer": func(*stream.Conn) io.Writer { return struct{ io.Writer }{io.Discard} },
		} {
			const conns, most = 100, 16 << 10
			check(t, spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
					before := inUse(t, ctx)
					for range conns {
						a, b := pair(t, ctx, "unix")
						n.Go(func(context.Context) error {
							defer a.Close()
							defer b.Close()
							_, err := io.Copy(to(a), a)
							return onlyCanceled(err)
						})
						_, err := b.Write(make([]byte, 100))
						check(t, err)
					}
					waiting(t, ctx, conns, "Conn.Read")
					if after := inUse(t, ctx); after.heap-before.heap > conns*most {
						t.Errorf("to %s: %d bytes each", name, (after.heap-before.heap)/conns)
					}
					s.Cancel(nil)
				})
				return nil
			}))
		}
	})
}

// TestCopyDeadlines hold also where much is copied at once: each passes while the
// copy waits on its other side.
func TestCopyDeadlines(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		source, in := pair(t, ctx, "unix")
		out, sink := pair(t, ctx, "unix")
		copying := func(n *spindle.Nursery) {
			n.Go(func(context.Context) error {
				_, err := io.Copy(out, in)
				want(t, "Copy", err, os.ErrDeadlineExceeded)
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
			until(t, ctx, func() bool { return len(waiters(ctx, "Conn.Write")) == 1 }) // the source's
			waiting(t, ctx, 1, "Conn.Read")
			check(t, in.Close())
			check(t, out.Close())
		})
	})
}

// TestIdleReaderKeepsNoLargeBuffer: what a long message took is given back when the
// next one is waited for.
func TestIdleReaderKeepsNoLargeBuffer(t *testing.T) {
	onBackend(t, "", func(t *testing.T, ctx context.Context) {
		const readers, most = 100, 8 << 10
		long := strings.Repeat("x", 60_000) + "\n"
		var all []*stream.Reader
		before := inUse(t, ctx)
		for range readers {
			r := stream.NewReader(strings.NewReader(long), 0)
			if line, err := r.ReadLine(); len(line) != 60_000 || err != nil {
				t.Fatal(err)
			}
			if _, err := r.ReadLine(); err != io.EOF {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		if after := inUse(t, ctx); after.heap-before.heap > readers*most {
			t.Errorf("%d bytes each", (after.heap-before.heap)/readers)
		}
		runtime.KeepAlive(all)
	})
}
