package transport_test

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

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// deadHosts is a kernel in which some addresses never answer, names have several
// addresses, and time passes only when the loop waits.
type deadHosts struct {
	kernel.Poller
	kernel.Sockets
	dead   map[netip.Addr]bool
	names  []netip.Addr
	silent map[int]bool
	open   map[int]bool
	tried  []netip.Addr
	now    time.Duration
	work   []func()
	closed bool // the test has closed the loop
}

func (d *deadHosts) Mono() time.Duration           { return d.now }
func (d *deadHosts) Wall() time.Time               { return time.Unix(0, 0).Add(d.now) }
func (*deadHosts) At(mono time.Duration) time.Time { return time.Unix(0, 0).Add(mono) }
func (d *deadHosts) Start(work func())             { d.work = append(d.work, work) }

func (d *deadHosts) Wait(events []kernel.Event, timeout time.Duration) (int, error) {
	if len(d.work) > 0 && timeout != 0 {
		work := d.work[0]
		d.work = d.work[1:]
		work()
		timeout = 0
	}
	n, err := d.Poller.Wait(events, min(timeout, 5*time.Millisecond))
	if n == 0 && timeout > 0 {
		d.now += timeout
	}
	return n, err
}

func (d *deadHosts) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return d.names, nil
}

func (d *deadHosts) Socket(f kernel.Family, t kernel.Type) (int, error) {
	fd, err := d.Sockets.Socket(f, t)
	if err == nil {
		d.open[fd] = true
	}
	return fd, err
}

func (d *deadHosts) CloseFD(fd int) error {
	delete(d.open, fd)
	delete(d.silent, fd)
	return d.Sockets.CloseFD(fd)
}

func (d *deadHosts) Connect(fd int, a kernel.Addr) error {
	d.tried = append(d.tried, a.Addr())
	if d.dead[a.Addr()] {
		d.silent[fd] = true
		return syscall.EINPROGRESS
	}
	return d.Sockets.Connect(fd, a)
}

func (d *deadHosts) Add(fd int, tok kernel.Token, in kernel.Interest, mode kernel.Mode) error {
	if d.silent[fd] {
		return nil
	}
	return d.Poller.Add(fd, tok, in, mode)
}

func (d *deadHosts) Delete(fd int) error {
	if d.silent[fd] {
		return nil
	}
	return d.Poller.Delete(fd)
}

// onDeadHosts returns a loop on deadHosts, and a server on it at 127.0.0.1.
func onDeadHosts(t *testing.T, names ...string) (*loop.Loop, *deadHosts, *transport.Server) {
	t.Helper()
	k, err := kernel.Open("")
	if err != nil {
		t.Fatal(err)
	}
	d := &deadHosts{
		Poller: k.Poller, Sockets: k.Sockets, silent: map[int]bool{}, open: map[int]bool{},
		dead: map[netip.Addr]bool{netip.MustParseAddr("192.0.2.1"): true, netip.MustParseAddr("2001:db8::1"): true},
	}
	for _, name := range names {
		d.names = append(d.names, netip.MustParseAddr(name))
	}
	k.Poller, k.Sockets, k.Clock, k.Workers, k.Resolver = d, d, d, d, d
	l, err := loop.New(loop.Internal().WithKernel(loop.Options{Watchdog: -1}, k))
	if err != nil {
		t.Fatal(err)
	}
	s, err := transport.Listen(l, "tcp4", "127.0.0.1:0", transport.Options{Protocol: func() transport.Protocol {
		return &spy{tb: t, made: func(c *transport.Conn) { c.Close() }}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.Close(); d.closed {
			return
		}
		sockets := sock.RegistryOf(l)
		if stats := l.Stats(); stats.Timers != 0 || stats.FDs != 0 || stats.Ready != 0 || stats.Jobs != 0 {
			t.Errorf("left in the loop: %+v", stats)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if len(d.open) != 0 || sockets.Open() != 0 {
			t.Errorf("descriptors left: %v, sockets %d", d.open, sockets.Open())
		}
	})
	return l, d, s
}

// connectResult connects, runs the loop until that has ended, and returns the error.
func connectResult(t *testing.T, l *loop.Loop, ctx context.Context, network, address string, o transport.ConnectOptions) (err error) {
	t.Helper()
	p := &spy{tb: t, lost: func(c *transport.Conn, e error) {
		err = e
		l.CallLater(1e9, l.Stop)
	}}
	o.Protocol = p
	o.OnError = func(e error) {
		if err = e; e == nil {
			t.Error("OnError was called with nil")
		}
		l.CallLater(1e9, l.Stop)
	}
	transport.Connect(ctx, l, network, address, o)
	if e := l.Run(context.Background()); e != nil {
		t.Fatal(e)
	}
	return err
}

func portOf(s *transport.Server) string {
	_, port, _ := net.SplitHostPort(s.Addr().String())
	return port
}

func wantOpError(t *testing.T, err, want error) {
	t.Helper()
	var op *net.OpError
	if !errors.Is(err, want) || !errors.As(err, &op) || op.Op != "dial" {
		t.Errorf("got %v, want %v", err, want)
	}
}

func TestConnectRefused(t *testing.T) {
	l, d, s := onDeadHosts(t, "127.0.0.1")
	port := portOf(s)
	s.Close()
	err := connectResult(t, l, t.Context(), "tcp", "127.0.0.1:"+port, transport.ConnectOptions{})
	wantOpError(t, err, syscall.ECONNREFUSED)
	if want := "dial tcp 127.0.0.1:" + port + ": connect: connection refused"; err.Error() != want {
		t.Errorf("got %v, package net returns %s", err, want)
	}
	wantOpError(t, connectResult(t, l, t.Context(), "tcp", "name.example:"+port, transport.ConnectOptions{Timeout: time.Second}), syscall.ECONNREFUSED)
	wantOpError(t, connectResult(t, l, t.Context(), "unix", abstract(), transport.ConnectOptions{}), syscall.ECONNREFUSED)
	wantOpError(t, connectResult(t, l, t.Context(), "unix", t.TempDir()+"/unused", transport.ConnectOptions{}), syscall.ENOENT)
	if d.now >= 10*time.Second {
		t.Errorf("it took %v", d.now)
	}
}

func TestConnectTimeout(t *testing.T) {
	l, d, _ := onDeadHosts(t)
	err := connectResult(t, l, t.Context(), "tcp", "192.0.2.1:9", transport.ConnectOptions{Timeout: 3 * time.Second})
	wantOpError(t, err, os.ErrDeadlineExceeded)
	var netErr net.Error
	if !errors.As(err, &netErr) || !netErr.Timeout() {
		t.Errorf("%v is not a timeout", err)
	}
	if d.now < 3*time.Second || d.now > 5*time.Second {
		t.Errorf("it took %v", d.now)
	}
}

func TestConnectCancelled(t *testing.T) {
	l, _, s := onDeadHosts(t, "192.0.2.1")
	why := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	l.CallLater(time.Second, func() {
		cancel(why)
		// The function of context.AfterFunc runs on a goroutine of its own.
		posted := make(chan bool)
		context.AfterFunc(ctx, func() { close(posted) })
		<-posted
	})
	for _, address := range []string{"192.0.2.1:9", "name.example:" + portOf(s)} {
		wantOpError(t, connectResult(t, l, ctx, "tcp", address, transport.ConnectOptions{}), why)
	}
}

// TestConnectWhileLoopCloses: the connect fails and leaves nothing open.
func TestConnectWhileLoopCloses(t *testing.T) {
	for _, address := range []string{"192.0.2.1:9", "name.example:9"} {
		l, d, _ := onDeadHosts(t, "192.0.2.1")
		d.closed = true
		var failures []error
		for range 3 {
			transport.Connect(t.Context(), l, "tcp", address, transport.ConnectOptions{Protocol: &spy{tb: t}, Timeout: time.Hour, OnError: func(err error) {
				failures = append(failures, err)
				// Retrying forever must not keep the loop from closing.
				transport.Connect(t.Context(), l, "tcp", address, transport.ConnectOptions{Protocol: &spy{tb: t}, OnError: func(error) {}})
			}})
		}
		for range 3 {
			l.RunOnce(0)
		}
		if len(d.silent) == 0 && len(d.work) == 0 {
			t.Error("no connect was in progress")
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if len(failures) != 3 || !errors.Is(failures[0], net.ErrClosed) {
			t.Errorf("failed with %v", failures)
		}
		if len(d.open) != 0 {
			t.Errorf("descriptors left: %v", d.open)
		}
	}
}

// TestConnectHappyEyeballs: a first address that does not answer costs 250 ms; one that
// refuses costs nothing.
func TestConnectHappyEyeballs(t *testing.T) {
	for _, tc := range []struct {
		names []string
		tried string
		took  time.Duration
	}{
		{[]string{"127.0.0.1"}, "127.0.0.1", 0},
		{[]string{"192.0.2.1", "127.0.0.1"}, "192.0.2.1 127.0.0.1", 250 * time.Millisecond},
		{[]string{"2001:db8::1", "192.0.2.1", "127.0.0.1"}, "2001:db8::1 192.0.2.1 127.0.0.1", 500 * time.Millisecond},
		{[]string{"2001:db8::1", "::1", "127.0.0.1"}, "2001:db8::1 127.0.0.1", 250 * time.Millisecond},
		{[]string{"127.0.0.2", "127.0.0.1", "192.0.2.1"}, "127.0.0.2 127.0.0.1", 0},
		{[]string{"192.0.2.1", "127.0.0.2", "127.0.0.1"}, "192.0.2.1 127.0.0.2 127.0.0.1", 250 * time.Millisecond},
	} {
		t.Run(tc.tried, func(t *testing.T) {
			l, d, s := onDeadHosts(t, tc.names...)
			if err := connectResult(t, l, t.Context(), "tcp", "name.example:"+portOf(s), transport.ConnectOptions{}); err != nil {
				t.Error(err)
			}
			var tried []string
			for _, a := range d.tried {
				tried = append(tried, a.String())
			}
			if got := strings.Join(tried, " "); got != tc.tried {
				t.Errorf("tried %s", got)
			}
			if took := d.now - time.Second; took != tc.took { // connectResult adds a second
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestConnectNoAddressAnswers: the timeout covers all addresses. If all refuse, the
// first error is returned.
func TestConnectNoAddressAnswers(t *testing.T) {
	l, d, s := onDeadHosts(t, "192.0.2.1", "2001:db8::1", "192.0.2.1")
	err := connectResult(t, l, t.Context(), "tcp", "name.example:9", transport.ConnectOptions{Timeout: 2 * time.Second})
	wantOpError(t, err, os.ErrDeadlineExceeded)
	if len(d.tried) != 3 {
		t.Errorf("tried %v", d.tried)
	}
	port := portOf(s)
	s.Close()
	d.names = []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}
	wantOpError(t, connectResult(t, l, t.Context(), "tcp", "name.example:"+port, transport.ConnectOptions{}), syscall.ECONNREFUSED)
}

// TestBadAddresses: each one fails with the error type of package net.
func TestBadAddresses(t *testing.T) {
	l, _, _ := onDeadHosts(t)
	var unknown net.UnknownNetworkError
	var addr *net.AddrError
	for _, tc := range []struct {
		network, address, local string
		as                      any
	}{
		{"tpc", "127.0.0.1:1", "", &unknown},
		{"udp", "127.0.0.1:1", "", &unknown},
		{"tcp46", "127.0.0.1:1", "", &unknown},
		{"unixgram", "/unused", "", &unknown},
		{"tcp", "127.0.0.1", "", &addr},
		{"tcp6", "127.0.0.1:1", "", &addr},
		{"unix", "", "", &addr},
		{"tcp", "127.0.0.1:1", "name:0", &addr},
		{"tcp", "127.0.0.1:1", "127.0.0.1", &addr},
	} {
		err := connectResult(t, l, t.Context(), tc.network, tc.address, transport.ConnectOptions{Local: tc.local})
		var op *net.OpError
		if !errors.As(err, tc.as) || !errors.As(err, &op) {
			t.Errorf("Connect to %s %q from %q: %v", tc.network, tc.address, tc.local, err)
		}
		if tc.local != "" {
			continue
		}
		if _, err := transport.Listen(l, tc.network, tc.address, transport.Options{Protocol: func() transport.Protocol { return &spy{} }}); !errors.As(err, tc.as) || !errors.As(err, &op) {
			t.Errorf("Listen on %s %q: %v", tc.network, tc.address, err)
		}
	}
	wantOpError(t, connectResult(t, l, t.Context(), "tcp", "127.0.0.1:1", transport.ConnectOptions{Local: "192.0.2.77:0"}), syscall.EADDRNOTAVAIL)
}
