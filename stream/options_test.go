package stream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// options takes note of the socket options that are set.
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

// TestOptions reach the system, from tasks and goroutines.
func TestOptions(t *testing.T) {
	k, err := kernel.Open("")
	check(t, err)
	o := &options{Sockets: k.Sockets, set: map[kernel.Option]int{}}
	k.Sockets = o
	run(t, spindle.Options{Loop: loop.Options{Kernel: k}}, func(ctx context.Context) error {
		a, _ := pair(t, ctx, "tcp")
		if o.set[kernel.NoDelay] != 1 || o.all != 3 { // of both ends, and ReuseAddr
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

// TestWritev: the buffers arrive as one, and stay as they were; from tasks and
// goroutines, with more of them than the system takes at once.
func TestWritev(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		for _, network := range networks {
			a, b := pair(t, ctx, network)
			var bufs [][]byte
			for i := range 3000 {
				bufs = append(bufs, bytes.Repeat([]byte{byte(i)}, i%200))
			}
			all := bytes.Join(bufs, nil)
			before := bytes.Join(bufs, []byte("|"))
			for _, write := range []func([][]byte) (int64, error){a.Writev, func(bufs [][]byte) (int64, error) {
				return spindle.Blocking(ctx, func() (int64, error) { return a.Writev(bufs) })
			}} {
				together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
					n.Go(func(context.Context) error {
						m, err := write(bufs)
						if m != int64(len(all)) {
							t.Errorf("%d bytes", m)
						}
						return err
					})
					n.Go(func(context.Context) error { _, err := a.Write([]byte("end")); return err })
					got := receive(t, b, len(all)+3)
					if !bytes.Equal(got, append(bytes.Clone(all), "end"...)) && !bytes.Equal(got, append([]byte("end"), all...)) {
						t.Error("not as one")
					}
				})
			}
			if !bytes.Equal(bytes.Join(bufs, []byte("|")), before) {
				t.Error("the buffers were changed")
			}
			if n, err := a.Writev(nil); n != 0 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
	})
}

// TestWritevEnds: cancelled, or late, it tells how much went out; and of lent memory
// it writes what was lent.
func TestWritevEnds(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "unix")
		narrow(t, a)
		big := [][]byte{pattern(251 * 1000), pattern(251 * 1000), pattern(251 * 2000)}
		check(t, a.SetWriteDeadline(time.Now().Add(time.Millisecond)))
		n, err := a.Writev(big)
		want(t, "late", err, os.ErrDeadlineExceeded)
		check(t, a.SetWriteDeadline(time.Time{}))
		same(t, receive(t, b, int(n)), pattern(251 * 4000)[:n])

		_, err = b.Write([]byte("lent"))
		check(t, err)
		noise, ear := pair(t, ctx, "unix")
		p, err := a.ReadBorrow()
		check(t, err)
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			n.Go(func(context.Context) error {
				_, err := a.Writev([][]byte{pattern(251 * 4000), p})
				a.CloseWrite()
				return err
			})
			waiting(t, ctx, 1, "Conn.Writev")
			noise.Write(make([]byte, 1000))
			ear.ReadBorrow()
			got, err := io.ReadAll(b)
			check(t, err)
			same(t, got, append(pattern(251*4000), "lent"...))
		})
		_, err = a.Writev(big)
		want(t, "after CloseWrite", err, syscall.EPIPE)
		a.Close()
		_, err = a.Writev(big)
		want(t, "after Close", err, net.ErrClosed)
	})
}

// TestPeerCred tells who is at the other end of a Unix socket.
func TestPeerCred(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		a, _ := pair(t, ctx, "unix")
		cred, err := a.PeerCred()
		check(t, err)
		if cred != (stream.Cred{PID: os.Getpid(), UID: os.Getuid(), GID: os.Getgid()}) {
			t.Errorf("%+v", cred)
		}
		c, _ := pair(t, ctx, "tcp")
		_, err = c.PeerCred()
		want(t, "of TCP", err, errors.ErrUnsupported)
		a.Close()
		_, err = a.PeerCred()
		want(t, "of a closed one", err, net.ErrClosed)
	})
}
