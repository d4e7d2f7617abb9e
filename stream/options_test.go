package stream_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

// options records the socket options that are set.
type options struct {
	kernel.Sockets
	set map[kernel.Option]int
	all int
}

func (o *options) SetOption(fd int, option kernel.Option, value int) error {
	o.set[option] = value
	o.all++
	return o.Sockets.SetOption(fd, option, value)
}

// TestOptions checks that options reach the system, from tasks and goroutines.
func TestOptions(t *testing.T) {
	k, err := kernel.Open("")
	check(t, err)
	o := &options{Sockets: k.Sockets, set: map[kernel.Option]int{}}
	k.Sockets = o
	run(t, spindle.Options{Loop: loop.Internal().WithKernel(loop.Options{}, k)}, func(ctx context.Context) error {
		a, _ := pair(t, ctx, "tcp")
		if o.set[kernel.NoDelay] != 1 || o.all != 3 { // NoDelay at both ends, and ReuseAddr
			t.Errorf("set %v, %d in all", o.set, o.all)
		}
		for _, s := range []struct {
			option kernel.Option
			value  int
			set    func() error
		}{
			{kernel.NoDelay, 0, func() error { return a.SetNoDelay(false) }},
			{kernel.NoDelay, 1, func() error { return a.SetNoDelay(true) }},
			{kernel.KeepAlive, 1, func() error { return a.SetKeepAlive(true) }},
			{kernel.RecvBuffer, 10_000, func() error { return a.SetReadBuffer(10_000) }},
			{kernel.SendBuffer, 20_000, func() error { return a.SetWriteBuffer(20_000) }},
			{kernel.LingerSeconds, -1, func() error { return a.SetLinger(-1) }},
		} {
			for _, call := range []func() error{s.set, func() error {
				_, err := spindle.Blocking(ctx, func() (int, error) { return 0, s.set() })
				return err
			}} {
				delete(o.set, s.option)
				check(t, call())
				if got, ok := o.set[s.option]; !ok || got != s.value {
					t.Errorf("option %d: %d, want %d", s.option, got, s.value)
				}
			}
		}
		c, _ := pair(t, ctx, "unix")
		err := c.SetNoDelay(true)
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "set" || op.Net != "unix" {
			t.Errorf("NoDelay of a Unix socket: %v", err)
		}
		return nil
	})
}

// TestPeerCred checks the credentials of a Unix socket's peer.
func TestPeerCred(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		a, _ := pair(t, ctx, "unix")
		pid, uid, gid, err := a.PeerCred()
		check(t, err)
		if pid != os.Getpid() || uid != os.Getuid() || gid != os.Getgid() {
			t.Errorf("process %d of user %d and group %d", pid, uid, gid)
		}
		c, _ := pair(t, ctx, "tcp")
		_, _, _, err = c.PeerCred()
		want(t, "of TCP", err, errors.ErrUnsupported)
		a.Close()
		_, _, _, err = a.PeerCred()
		want(t, "of a closed one", err, net.ErrClosed)
	})
}
