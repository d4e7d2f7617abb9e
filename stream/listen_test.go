package stream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// TestListenerClosedWithWaitersAndPending checks that Accept calls fail and that
// peers of pending connections see the end. Run counts descriptors.
func TestListenerClosedWithWaitersAndPending(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		ln := listen(t, ctx, "tcp")
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			for range 3 {
				n.Go(func(ctx context.Context) error {
					_, err := ln.Accept()
					var op *net.OpError
					if !errors.Is(err, net.ErrClosed) || !errors.As(err, &op) || op.Op != "accept" {
						t.Errorf("Accept: %v", err)
					}
					return nil
				})
			}
			waiting(t, ctx, 3, "Listener.Accept")
			check(t, ln.Close())
		})
		want(t, "Close again", ln.Close(), net.ErrClosed)
		_, err := ln.Accept()
		want(t, "Accept", err, net.ErrClosed)

		ln = listen(t, ctx, "tcp")
		before := len(descriptors(t))
		c, err := stream.Dial(ctx, "tcp", ln.Addr().String())
		check(t, err)
		fds := spindle.LoopOf(ctx).Stats().FDs
		until.InTask(ctx, t, func() bool { return len(descriptors(t)) == before+2 }) // the pending one
		check(t, ln.Close())
		_, err = c.Read(make([]byte, 1))
		want(t, "Read by the peer of a pending connection", err, io.EOF, syscall.ECONNRESET)
		if now := spindle.LoopOf(ctx).Stats().FDs; now != fds-1 {
			t.Errorf("%d descriptors watched before, %d after", fds, now)
		}
	})
}

// TestLoopClosesWithPendingConnections checks that pending connections and the
// socket's path do not outlive the loop, even if a goroutine has just closed the
// listener.
func TestLoopClosesWithPendingConnections(t *testing.T) {
	for _, closeFirst := range []bool{false, true} {
		path := t.TempDir() + "/s" // not the subtest's TempDir, which would remove it
		onReal(t, func(t *testing.T, ctx context.Context) {
			ln, err := stream.Listen(ctx, "unix", path)
			check(t, err)
			before := len(descriptors(t))
			var d net.Dialer
			c, err := d.DialContext(t.Context(), "unix", path)
			check(t, err)
			t.Cleanup(func() { c.Close() })
			until.InTask(ctx, t, func() bool { return len(descriptors(t)) == before+2 })
			c.Close()
			if closeFirst {
				closed := make(chan error, 1)
				go func() { closed <- ln.Close() }()
				if err := <-closed; err != nil { // the loop waits here and has not run the close yet
					t.Error(err)
				}
			}
		})
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket's path still exists: %v", err)
		}
	}
}

// outOfFDs is a kernel that runs out of descriptors for a while.
type outOfFDs struct {
	kernel.Sockets
	failures int // number of Accept calls that still fail
	calls    int
}

func (f *outOfFDs) Accept(fd int) (int, error) {
	f.calls++
	if f.failures > 0 {
		f.failures--
		return -1, syscall.EMFILE
	}
	return f.Sockets.Accept(fd)
}

// TestAcceptOutOfDescriptors checks that accepting pauses and then continues.
func TestAcceptOutOfDescriptors(t *testing.T) {
	k, err := kernel.Open("")
	check(t, err)
	f := &outOfFDs{Sockets: k.Sockets, failures: 3}
	k.Sockets = f
	run(t, spindle.Options{Loop: loop.Internal().WithKernel(loop.Options{}, k)}, func(ctx context.Context) error {
		ln := listen(t, ctx, "tcp")
		_, err := stream.Dial(ctx, "tcp", ln.Addr().String())
		check(t, err)
		_, err = ln.Accept()
		check(t, err)
		if f.calls > 6 {
			t.Errorf("called %d times", f.calls)
		}
		return nil
	})
}

// TestAcceptCancelled checks that a cancelled Accept loses no connection.
func TestAcceptCancelled(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		ln := listen(t, ctx, "tcp")
		var first *stream.Conn
		check(t, spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
				n.Go(func(ctx context.Context) error {
					_, err := ln.AcceptConn()
					return onlyCanceled(err)
				})
				waiting(t, ctx, 1, "Listener.Accept")
				s.Cancel(nil)
			})
			return nil
		}))
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			n.Go(func(ctx context.Context) (err error) { first, err = ln.AcceptConn(); return err })
			_, err := stream.Dial(ctx, "tcp", ln.Addr().String())
			check(t, err)
		})
		if first == nil {
			t.Error("no connection was accepted")
		}
	})
}

// TestAcceptAhead opens more connections than are accepted ahead. None is lost.
func TestAcceptAhead(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		ln := listen(t, ctx, "tcp")
		const conns = 200
		before := len(descriptors(t))
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			for range conns {
				n.Go(func(ctx context.Context) error {
					c, err := stream.Dial(ctx, "tcp", ln.Addr().String())
					if err != nil {
						return err
					}
					defer c.Close()
					_, err = c.Read(make([]byte, 1))
					return err
				})
			}
			waiting(t, ctx, conns, "Conn.Read")
			quiet(t, ctx, 5)
			if ahead := len(descriptors(t)) - before - conns; ahead != 64 {
				t.Errorf("%d were accepted ahead", ahead)
			}
			for range conns {
				c, err := ln.AcceptConn()
				check(t, err)
				_, err = c.Write([]byte("x"))
				check(t, err)
				c.Close()
			}
		})
	})
}

// TestListenOnAddressInUse checks that a second listener fails, unless both set
// ReusePort.
func TestListenOnAddressInUse(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		ln := listen(t, ctx, "tcp")
		_, err := stream.Listen(ctx, "tcp", ln.Addr().String())
		want(t, "a port that is taken", err, syscall.EADDRINUSE)
		ln.Close()
		shared := stream.ListenConfig{ReusePort: true}
		ln, err = shared.Listen(ctx, "tcp", ln.Addr().String())
		check(t, err)
		_, err = shared.Listen(ctx, "tcp", ln.Addr().String())
		check(t, err)
	})
}

// TestListenOnAllAddresses checks that a listener without a host serves both
// families.
func TestListenOnAllAddresses(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		ln, err := stream.Listen(ctx, "tcp", ":0")
		check(t, err)
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		for _, host := range []string{"127.0.0.1", "[::1]", "localhost", ""} {
			c, err := stream.Dial(ctx, "tcp", host+":"+port)
			if err != nil && host == "[::1]" {
				continue // a machine without IPv6
			}
			check(t, err)
			_, err = ln.AcceptConn()
			check(t, err)
			c.Close()
		}
	})
}

// noIPv6 is a kernel without IPv6.
type noIPv6 struct{ kernel.Sockets }

func (a noIPv6) Socket(f kernel.Family, t kernel.Type) (int, error) {
	if f == kernel.IPv6 {
		return -1, syscall.EAFNOSUPPORT
	}
	return a.Sockets.Socket(f, t)
}

// TestListenWithoutIPv6 checks the fallback to all IPv4 addresses.
func TestListenWithoutIPv6(t *testing.T) {
	k, err := kernel.Open("")
	check(t, err)
	k.Sockets = noIPv6{k.Sockets}
	run(t, spindle.Options{Loop: loop.Internal().WithKernel(loop.Options{}, k)}, func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", ":0")
		check(t, err)
		p, err := stream.ListenPacket(ctx, "udp", ":0")
		check(t, err)
		for _, a := range []net.Addr{ln.Addr(), p.LocalAddr()} {
			if host, _, _ := net.SplitHostPort(a.String()); host != "0.0.0.0" {
				t.Errorf("%v", a)
			}
		}
		_, err = stream.Listen(ctx, "tcp6", ":0")
		want(t, "tcp6", err, syscall.EAFNOSUPPORT)
		_, err = stream.ListenPacket(ctx, "udp6", ":0")
		want(t, "udp6", err, syscall.EAFNOSUPPORT)
		return nil
	})
}

// TestCloseKeepsAReplacedPath checks that Close does not remove a path that another
// socket has taken.
func TestCloseKeepsAReplacedPath(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		for name, open := range map[string]func(path string) (io.Closer, error){
			"Listener":   func(path string) (io.Closer, error) { return stream.Listen(ctx, "unix", path) },
			"PacketConn": func(path string) (io.Closer, error) { return stream.ListenPacket(ctx, "unixgram", path) },
		} {
			path := t.TempDir() + "/s"
			first, err := open(path)
			check(t, err)
			check(t, os.Rename(path, path+".old")) // keeps its inode from being reused
			second, err := open(path)
			check(t, err)
			check(t, first.Close())
			check(t, spindle.Yield(ctx))
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: the other's path: %v", name, err)
			}
			check(t, second.Close())
			check(t, spindle.Yield(ctx))
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: its own path: %v", name, err)
			}
		}
	})
}
