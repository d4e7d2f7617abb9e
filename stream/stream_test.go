package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

// on runs fn as a task on a loop with each backend, and on a simulated kernel.
func on(t *testing.T, fn func(t *testing.T, ctx context.Context)) {
	t.Helper()
	onReal(t, fn)
	t.Run("sim", func(t *testing.T) {
		sim.Test(t, func(ctx context.Context) error {
			fn(t, ctx)
			return nil
		})
	})
}

// onReal is on for tests that need descriptors, goroutines or package net.
func onReal(t *testing.T, fn func(t *testing.T, ctx context.Context)) {
	t.Helper()
	for _, backend := range short.Backends() {
		t.Run(backend, func(t *testing.T) { onBackend(t, backend, fn) })
	}
}

func onBackend(t *testing.T, backend string, fn func(t *testing.T, ctx context.Context)) {
	t.Helper()
	o := spindle.Options{Loop: loop.Options{Backend: backend, Debug: true}} // debug mode poisons borrowed bytes that are kept
	run(t, o, func(ctx context.Context) error {
		fn(t, ctx)
		return nil
	})
}

// run runs fn, which must not fail, and checks that no descriptor stays open.
func run(t *testing.T, o spindle.Options, fn func(context.Context) error) {
	t.Helper()
	before := descriptors(t)
	if err := o.Run(t.Context(), fn); err != nil {
		t.Errorf("Run: %v", err)
	}
	if after := descriptors(t); len(after) > len(before) {
		t.Errorf("descriptors %v before, %v after", before, after)
	}
}

func descriptors(t *testing.T) (open []string) {
	t.Helper()
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	for _, e := range dir {
		open = append(open, e.Name())
	}
	return open
}

// listen listens at a free address of a network.
func listen(t *testing.T, ctx context.Context, network string) *stream.Listener {
	t.Helper()
	address := "127.0.0.1:0"
	switch network {
	case "tcp6":
		address = "[::1]:0"
	case "unix":
		address = t.TempDir() + "/s"
	}
	ln, err := stream.Listen(ctx, network, address)
	check(t, err)
	return ln
}

// pair returns the two ends of a connection.
func pair(t *testing.T, ctx context.Context, network string) (a, b *stream.Conn) {
	t.Helper()
	ln := listen(t, ctx, network)
	defer ln.Close()
	a, err := stream.Dial(ctx, network, ln.Addr().String())
	check(t, err)
	b, err = ln.AcceptConn()
	check(t, err)
	return a, b
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want checks that err is one of the targets.
func want(t *testing.T, what string, err error, targets ...error) {
	t.Helper()
	if !slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) }) {
		t.Errorf("%s: %v, want %v", what, err, targets)
	}
}

// together runs tasks and waits for all of them.
func together(t *testing.T, ctx context.Context, fn func(ctx context.Context, n *spindle.Nursery)) {
	t.Helper()
	check(t, spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		fn(ctx, n)
		return nil
	}))
}

// waiting waits until n tasks wait for what.
func waiting(t *testing.T, ctx context.Context, n int, what string) {
	t.Helper()
	until.InTask(ctx, t, func() bool { return len(waiters(ctx, what)) >= n })
}

func waiters(ctx context.Context, what string) (names []string) {
	for _, task := range spindle.TreeOf(ctx) {
		if task.State == "waiting" && task.WaitsFor == what {
			names = append(names, task.Name)
		}
	}
	return names
}

// pattern returns n bytes without repetitions, so that misplaced bytes are noticed.
func pattern(n int) []byte {
	const period = 251
	p := make([]byte, n)
	for i := range min(n, period) {
		p[i] = byte(i)
	}
	for have := period; have < n; have *= 2 {
		copy(p[have:], p[:have])
	}
	return p
}

// same compares bytes without printing a megabyte of them.
func same(t *testing.T, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	t.Errorf("%d bytes, want %d; they differ from %d on", len(got), len(want), at)
}

// receive reads n bytes.
func receive(t *testing.T, r io.Reader, n int) []byte {
	t.Helper()
	p := make([]byte, n)
	m, err := io.ReadFull(r, p)
	if err != nil {
		t.Errorf("after %d of %d bytes: %v", m, n, err)
	}
	return p[:m]
}

// fill writes until the socket's buffer is full and returns the number of bytes
// written.
func fill(t *testing.T, ctx context.Context, c *stream.Conn) (sent int) {
	t.Helper()
	check(t, spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			n.Go(func(ctx context.Context) error {
				for {
					m, err := c.Write(pattern(1 << 20)[sent%251:])
					sent += m
					if err != nil {
						return onlyCanceled(err)
					}
				}
			})
			waiting(t, ctx, 1, "Conn.Write")
			s.Cancel(nil)
		})
		return nil
	}))
	return sent
}

func onlyCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("not cancelled, but %w", err)
}

func notEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
