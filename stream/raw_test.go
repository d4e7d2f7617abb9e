package stream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

func TestSyscallConn(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "tcp")
		raw, err := a.SyscallConn()
		check(t, err)
		kind := 0
		check(t, raw.Control(func(fd uintptr) { kind, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_TYPE) }))
		if check(t, err); kind != syscall.SOCK_STREAM {
			t.Error(kind)
		}
		var calls []bool
		once := func(done bool) func(uintptr) bool {
			return func(uintptr) bool { calls = append(calls, done); return done }
		}
		check(t, raw.Read(once(true)))
		check(t, raw.Write(once(true)))
		want(t, "Read that waits", raw.Read(once(false)), errors.ErrUnsupported)
		want(t, "Write that waits", raw.Write(once(false)), errors.ErrUnsupported)
		if len(calls) != 4 {
			t.Error(calls)
		}

		same, err := stream.Wrap(ctx, a) // a duplicate, which outlives the original
		check(t, err)
		check(t, a.Close())
		want(t, "after Close", raw.Control(func(uintptr) { t.Error("was called") }), net.ErrClosed)
		_, err = same.Write([]byte("still here"))
		check(t, err)
		check(t, same.Close())
		if got, err := io.ReadAll(b); string(got) != "still here" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestSyscallConnFromAGoroutine(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		a, _ := pair(t, ctx, "tcp")
		_, err := spindle.Blocking(ctx, func() (int, error) {
			raw, err := a.SyscallConn()
			if err != nil {
				return 0, err
			}
			return 0, raw.Control(func(uintptr) {})
		})
		check(t, err)
	})
}

func TestSyscallConnInASimulation(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		a, _ := pair(t, ctx, "tcp")
		_, err := a.SyscallConn()
		want(t, "a simulated run", err, errors.ErrUnsupported)
		return nil
	})
}
