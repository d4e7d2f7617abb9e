package stream_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// unresponsiveAddr returns an address that neither accepts nor refuses: its backlog
// is full.
func unresponsiveAddr(t *testing.T, ip string) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	check(t, err)
	t.Cleanup(func() { syscall.Close(fd) })
	check(t, syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	check(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: netip.MustParseAddr(ip).As4()}))
	check(t, syscall.Listen(fd, 0))
	sa, err := syscall.Getsockname(fd)
	check(t, err)
	at := sa.(*syscall.SockaddrInet4)
	for range 3 { // one is enough on Linux; the others never connect
		c, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		check(t, err)
		check(t, syscall.SetNonblock(c, true))
		t.Cleanup(func() { syscall.Close(c) })
		check(t, syscall.SetNonblock(c, true))
		if err := syscall.Connect(c, at); err != nil && err != syscall.EINPROGRESS {
			t.Fatal(err)
		}
	}
	return netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)).String()
}

// refusingAddr returns an address without a listener.
func refusingAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer ln.Close()
	return ln.Addr().String()
}

// TestDialRefused checks that Dial fails as net's does.
func TestDialRefused(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		address := refusingAddr(t)
		_, err := stream.Dial(ctx, "tcp", address)
		var op *net.OpError
		if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &op) || op.Op != "dial" || op.Addr.String() != address {
			t.Errorf("%v", err)
		}
		_, err = stream.Dial(ctx, "unix", t.TempDir()+"/missing")
		want(t, "unix", err, syscall.ENOENT, os.ErrNotExist)
	})
}

// TestDialBadInput checks that bad input fails at once with net's errors.
func TestDialBadInput(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		for _, bad := range []struct{ network, address, text string }{
			{"tcp", "127.0.0.1", "missing port"},
			{"tcp", "127.0.0.1:http-no", "http-no"},
			{"tcp", "127.0.0.1:99999", "99999"},
			{"tcp6", "127.0.0.1:80", "no suitable address"},
			{"tcq", "127.0.0.1:80", "unknown network"},
			{"udp", "127.0.0.1:80", "unknown network"},
			{"unix", "", "missing path"},
		} {
			_, err := stream.Dial(ctx, bad.network, bad.address)
			var op *net.OpError
			if !errors.As(err, &op) || !strings.Contains(err.Error(), bad.text) {
				t.Errorf("Dial(%s, %s): %v", bad.network, bad.address, err)
			}
			_, err = stream.Listen(ctx, bad.network, bad.address)
			if !errors.As(err, &op) || !strings.Contains(err.Error(), bad.text) {
				t.Errorf("Listen(%s, %s): %v", bad.network, bad.address, err)
			}
		}
	})
}

// TestDialTimesOut covers the Dialer's timeout and a scope's, from tasks and
// goroutines. Run counts descriptors.
func TestDialTimesOut(t *testing.T) {
	address := unresponsiveAddr(t, "127.0.0.1")
	d := stream.Dialer{Timeout: 2 * time.Millisecond}
	onReal(t, func(t *testing.T, ctx context.Context) {
		open := descriptors(t)
		_, err := d.DialContext(ctx, "tcp", address)
		var ne net.Error
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &ne) || !ne.Timeout() {
			t.Errorf("%v", err)
		}
		late, err := spindle.MoveOnAfter(ctx, time.Millisecond, func(ctx context.Context) error {
			_, err := stream.Dial(ctx, "tcp", address)
			return err
		})
		if !late || err != nil {
			t.Errorf("%v, %v", late, err)
		}
		_, err = spindle.Blocking(ctx, func() (net.Conn, error) { return d.DialContext(ctx, "tcp", address) })
		want(t, "from a goroutine", err, os.ErrDeadlineExceeded)
		if now := descriptors(t); len(now) > len(open) {
			t.Errorf("descriptors %v before, %v after", open, now)
		}
	})
}

// TestDialCancelled cancels a dial before and during it, by scopes and by a
// goroutine's context.
func TestDialCancelled(t *testing.T) {
	address := unresponsiveAddr(t, "127.0.0.1")
	onReal(t, func(t *testing.T, ctx context.Context) {
		open := descriptors(t)
		check(t, spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
				n.Go(func(ctx context.Context) error {
					_, err := stream.Dial(ctx, "tcp", address)
					return onlyCanceled(err)
				})
				waiting(t, ctx, 1, "Dial")
				s.Cancel(nil)
			})
			_, err := stream.Dial(ctx, "tcp", address)
			want(t, "a scope that is cancelled", err, context.Canceled)
			return nil
		}))
		because := errors.New("because")
		inner, cancel := context.WithCancelCause(ctx)
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			n.Go(func(ctx context.Context) error {
				_, err := spindle.Blocking(ctx, func() (net.Conn, error) { return stream.Dialer{}.DialContext(inner, "tcp", address) })
				want(t, "a goroutine", err, because)
				return nil
			})
			waiting(t, ctx, 1, "Dial")
			cancel(because)
		})
		_, err := spindle.Blocking(ctx, func() (net.Conn, error) { return stream.Dialer{}.DialContext(inner, "tcp", address) })
		want(t, "a context that has ended", err, because)
		if now := descriptors(t); len(now) > len(open) {
			t.Errorf("descriptors %v before, %v after", open, now)
		}
	})
}

// oneName is a resolver that knows one name.
type oneName struct{ ips []netip.Addr }

func (n oneName) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if host != "many" {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return n.ips, nil
}

// TestDialTriesAllAddresses: the first address refuses, the second is unresponsive,
// the third answers. Dial does not wait for the second one to time out.
func TestDialTriesAllAddresses(t *testing.T) {
	for _, backend := range short.Backends() {
		t.Run(backend, func(t *testing.T) {
			_, service, _ := net.SplitHostPort(unresponsiveAddr(t, "127.0.0.2"))
			k, err := kernel.Open(backend)
			check(t, err)
			k.Resolver = oneName{[]netip.Addr{netip.MustParseAddr("127.0.0.3"), netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.5")}}
			run(t, spindle.Options{Loop: loop.Internal().WithKernel(loop.Options{}, k)}, func(ctx context.Context) error {
				ln, err := stream.Listen(ctx, "tcp", "127.0.0.5:"+service) // an address that is used nowhere else
				check(t, err)
				c, err := stream.Dial(ctx, "tcp", "many:"+service)
				check(t, err)
				if got := c.RemoteAddr().String(); got != ln.Addr().String() {
					t.Errorf("connected to %s", got)
				}
				if n := spindle.LoopOf(ctx).Stats(); n.Timers != 0 || n.FDs != 2 {
					t.Errorf("loop is not idle: %+v", n)
				}
				_, err = stream.Dial(ctx, "tcp", "none:"+service)
				var dns *net.DNSError
				if !errors.As(err, &dns) || !dns.IsNotFound {
					t.Errorf("unknown name: %v", err)
				}
				return nil
			})
		})
	}
}

// TestDialFrom checks that the local address can be chosen.
func TestDialFrom(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		ln := listen(t, ctx, "tcp")
		c, err := stream.Dialer{Local: "127.0.0.7:0"}.DialContext(ctx, "tcp", ln.Addr().String())
		check(t, err)
		if host, _, _ := net.SplitHostPort(c.LocalAddr().String()); host != "127.0.0.7" {
			t.Errorf("from %s", host)
		}
		_, err = stream.Dialer{Local: "192.0.2.1:0"}.DialContext(ctx, "tcp", ln.Addr().String())
		want(t, "a local address of another machine", err, syscall.EADDRNOTAVAIL)
	})
}
