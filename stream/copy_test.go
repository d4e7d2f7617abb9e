package stream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// copied sends bytes through a proxy and checks that they arrive unchanged.
func copied(t *testing.T, ctx context.Context, network string, size int, slow bool, copy func(to, from *stream.Conn) (int64, error)) {
	t.Helper()
	source, in := pair(t, ctx, network)
	out, sink := pair(t, ctx, network)
	for _, c := range []*stream.Conn{source, in, out, sink} {
		defer c.Close()
		if slow {
			narrow(t, c)
		}
	}
	together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
		n.Go(func(ctx context.Context) error {
			_, err := source.Write(pattern(size))
			source.CloseWrite()
			return err
		})
		n.Go(func(ctx context.Context) error {
			m, err := copy(out, in)
			if m != int64(size) {
				t.Errorf("%d bytes were copied, of %d", m, size)
			}
			out.CloseWrite()
			return err
		})
		if slow {
			waiting(t, ctx, 2, "Conn.Write")
		}
		got, err := io.ReadAll(sink)
		check(t, err)
		same(t, got, pattern(size))
	})
}

// narrow makes the socket's buffers small.
func narrow(t *testing.T, c *stream.Conn) {
	t.Helper()
	check(t, c.SetWriteBuffer(64<<10))
	check(t, c.SetReadBuffer(64<<10))
}

func ioCopy(to, from *stream.Conn) (int64, error) { return io.Copy(to, from) }

// TestCopy copies from tasks and goroutines, small and large amounts, with a reader
// that keeps up and one that does not.
func TestCopy(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		ways := map[string]func(to, from *stream.Conn) (int64, error){
			"io.Copy":  ioCopy,
			"ReadFrom": func(to, from *stream.Conn) (int64, error) { return to.ReadFrom(from) },
			"goroutine": func(to, from *stream.Conn) (int64, error) {
				return spindle.Blocking(ctx, func() (int64, error) { return io.Copy(to, from) })
			},
			"unknown writer": func(to, from *stream.Conn) (int64, error) { return io.Copy(struct{ io.Writer }{to}, from) },
			"unknown reader": func(to, from *stream.Conn) (int64, error) { return io.Copy(to, struct{ io.Reader }{from}) },
			"goroutine, unknown writer": func(to, from *stream.Conn) (int64, error) {
				return spindle.Blocking(ctx, func() (int64, error) { return io.Copy(struct{ io.Writer }{to}, from) })
			},
			"goroutine, unknown reader": func(to, from *stream.Conn) (int64, error) {
				return spindle.Blocking(ctx, func() (int64, error) { return io.Copy(to, struct{ io.Reader }{from}) })
			},
		}
		for _, way := range ways {
			for _, network := range networks {
				copied(t, ctx, network, 0, false, way)
				copied(t, ctx, network, 1000, false, way)
				copied(t, ctx, network, short.Of(3<<20), false, way)
			}
		}
		copied(t, ctx, "tcp", 4<<20, true, ioCopy)
	})
}

// noNative is a kernel with nothing but sockets.
type noNative struct{ kernel.Sockets }

// halfNative claims to splice, but fails when called.
type halfNative struct {
	kernel.Sockets
	kernel.Native
	calls int
}

func (h *halfNative) Splice(int, int, int) (int, error) {
	h.calls++
	return 0, syscall.EINVAL
}

// TestCopyWithoutSplice checks that a copy falls back to reading and writing.
func TestCopyWithoutSplice(t *testing.T) {
	for _, half := range []bool{false, true} {
		k, err := kernel.Open("")
		check(t, err)
		h := &halfNative{Sockets: k.Sockets, Native: k.Native()}
		if k.Sockets = (noNative{k.Sockets}); half {
			k.Sockets = h
		}
		run(t, spindle.Options{Loop: loop.Internal().WithKernel(loop.Options{}, k)}, func(ctx context.Context) error {
			copied(t, ctx, "tcp", 3<<20, false, ioCopy)
			copied(t, ctx, "tcp", 4<<20, true, ioCopy)
			return nil
		})
		if half && h.calls != 1 {
			t.Errorf("called %d times", h.calls)
		}
	}
}

// TestCancelledCopyLeavesNothingBehind cancels a copy that waits for writability.
// The next copy must not send leftovers of it.
func TestCancelledCopyLeavesNothingBehind(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		for _, end := range []string{"cancel", "close"} {
			source, in := pair(t, ctx, "tcp")
			out, sink := pair(t, ctx, "tcp")
			for _, c := range []*stream.Conn{source, in, out, sink} {
				narrow(t, c)
			}
			check(t, spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
					n.Go(func(context.Context) error { source.Write(pattern(4 << 20)); return nil })
					n.Go(func(context.Context) error {
						m, err := io.Copy(out, in)
						if err == nil || m == 0 || m == 4<<20 {
							t.Errorf("%d, %v", m, err)
						}
						return nil
					})
					waiting(t, ctx, 2, "Conn.Write")
					if end == "close" {
						out.Close()
						source.Close()
						return
					}
					s.Cancel(nil)
				})
				return nil
			}))
			for _, c := range []*stream.Conn{source, in, out, sink} {
				c.Close()
			}
			copied(t, ctx, "tcp", 1<<20, false, ioCopy)
		}
	})
}

// yieldingWriter lets other tasks run before it uses the bytes.
type yieldingWriter struct {
	ctx   context.Context
	noise func()
	bytes.Buffer
}

func (d *yieldingWriter) Write(p []byte) (int, error) {
	d.noise()
	return d.Buffer.Write(p)
}

// TestCopyToAWriterThatWaits checks that the writer's bytes are not overwritten
// meanwhile.
func TestCopyToAWriterThatWaits(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		source, in := pair(t, ctx, "unix")
		a, b := pair(t, ctx, "unix")
		d := &yieldingWriter{ctx: ctx, noise: func() {
			together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
				n.Go(func(context.Context) error { _, err := b.ReadBorrow(); return err })
				_, err := a.Write(make([]byte, 100_000))
				check(t, err)
			})
			b.ReadBorrow()
		}}
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			n.Go(func(context.Context) error {
				_, err := source.Write(pattern(300_000))
				source.Close()
				return err
			})
			_, err := io.Copy(struct{ io.Writer }{d}, in)
			check(t, err)
			same(t, d.Bytes(), pattern(300_000))
		})
	})
}

// TestCopyErrors checks which side's error is returned, and the count.
func TestCopyErrors(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		broken := errors.New("broken")
		a, b := pair(t, ctx, "tcp")
		n, err := io.Copy(a, io.MultiReader(strings.NewReader("hello"), iotest.ErrReader(broken)))
		if n != 5 || err != broken {
			t.Errorf("a reader that fails: %d, %v", n, err)
		}
		n, err = io.Copy(writer(func(p []byte) (int, error) { return 2, broken }), b)
		if n != 2 || err != broken {
			t.Errorf("a writer that fails: %d, %v", n, err)
		}
		a.Write([]byte("more"))
		n, err = io.Copy(writer(func(p []byte) (int, error) { return 2, nil }), b)
		if n != 2 || err != io.ErrShortWrite {
			t.Errorf("a writer that does not write: %d, %v", n, err)
		}
		check(t, b.SetLinger(0))
		b.Close()
		_, err = io.Copy(io.Discard, a)
		want(t, "a connection that is reset", err, syscall.ECONNRESET)
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
