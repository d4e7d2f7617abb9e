package sock_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
)

// result records the calls of done.
type result struct {
	calls int
	fd    int
	addr  kernel.Addr
	err   error
}

func (a *result) done(fd int, at kernel.Addr, err error) {
	a.calls++
	a.fd, a.addr, a.err = fd, at, err
}

func target(t *testing.T, network, address string) sock.Target {
	t.Helper()
	to, err := sock.ParseTarget(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// waitLookup waits for a look-up, which runs on a goroutine of its own.
func waitLookup(t *testing.T, r *sock.Registry) {
	t.Helper()
	for r.L.Stats().Jobs > 0 {
		turn(t, r)
	}
	turn(t, r)
}

func TestDialConnectsAtOnce(t *testing.T) {
	f, r := newFake(t)
	f.connect = func(kernel.Addr) error { return nil }
	var a result
	r.Dial(target(t, "tcp", "10.0.0.1:9"), kernel.Addr{}, a.done)
	if a.calls != 0 {
		t.Error("done was called inside Dial")
	}
	turn(t, r)
	if a.calls != 1 || a.err != nil || a.addr != addr("10.0.0.1") || !f.open[a.fd] {
		t.Errorf("%+v", a)
	}
	r.K.CloseFD(a.fd)
}

func TestDialConnectsLater(t *testing.T) {
	for _, status := range []syscall.Errno{0, syscall.ECONNREFUSED} {
		f, r := newFake(t)
		f.connect = func(kernel.Addr) error { return syscall.EINPROGRESS }
		var a result
		d := r.Dial(target(t, "tcp", "10.0.0.1:9"), kernel.Addr{}, a.done)
		turn(t, r)
		if a.calls != 0 || len(f.watched) != 1 || r.L.Stats().Timers != 0 {
			t.Errorf("%+v", a)
		}
		fd := f.next
		f.status[fd] = status
		f.ready(fd, kernel.Writable)
		turn(t, r)
		if status == 0 {
			if a.calls != 1 || a.err != nil || a.fd != fd {
				t.Errorf("%+v", a)
			}
			r.K.CloseFD(a.fd)
		} else if a.calls != 1 || a.err != status || a.fd != -1 {
			t.Errorf("%+v", a)
		}
		if d.Cancel() {
			t.Error("Cancel after done reported true")
		}
	}
}

// TestDialCancel: Cancel at each stage leaves nothing open, and done is not called.
func TestDialCancel(t *testing.T) {
	f, r := newFake(t)
	f.connect = func(kernel.Addr) error { return syscall.EINPROGRESS }
	begun := make(chan bool)
	var a result
	for _, stage := range []string{"begun", "connecting", "two", "looking up"} {
		to := target(t, "tcp", "10.0.0.1:9")
		switch stage {
		case "two":
			f.lookup = func(context.Context) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}, nil
			}
			to = target(t, "tcp", "name:9")
		case "looking up":
			f.lookup = func(ctx context.Context) ([]netip.Addr, error) {
				close(begun)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			to = target(t, "tcp", "name:9")
		}
		d := r.Dial(to, kernel.Addr{}, a.done)
		switch stage {
		case "connecting":
			turn(t, r)
		case "two":
			waitLookup(t, r)
			pass(t, r)
			if len(f.open) != 2 {
				t.Errorf("%d concurrent attempts", len(f.open))
			}
		case "looking up":
			<-begun // otherwise the job is removed before it starts
		}
		if !d.Cancel() || d.Cancel() {
			t.Errorf("%s: Cancel must report true once, then false", stage)
		}
		waitLookup(t, r)
		if a.calls != 0 || len(f.open) != 0 || len(f.watched) != 0 || r.L.Stats().Timers != 0 {
			t.Errorf("%s: %+v, open %v", stage, a, f.open)
		}
	}
}

// TestDialTriesEveryAddress: families alternate, and an address that fails at once is
// followed by the next without delay.
func TestDialTriesEveryAddress(t *testing.T) {
	f, r := newFake(t)
	for _, name := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "2001:db8::1"} {
		ip := netip.MustParseAddr(name)
		before := f.lookup
		f.lookup = func(ctx context.Context) (all []netip.Addr, err error) {
			if before != nil {
				all, _ = before(ctx)
			}
			return append(all, ip), nil
		}
	}
	first := true
	f.connect = func(a kernel.Addr) error {
		if first {
			first = false
			return syscall.ENETUNREACH
		}
		return syscall.EHOSTUNREACH
	}
	var a result
	r.Dial(target(t, "tcp", "name:9"), kernel.Addr{}, a.done)
	waitLookup(t, r)
	if a.calls != 1 || a.err != syscall.ENETUNREACH {
		t.Errorf("%+v", a)
	}
	order := strings.Join(f.calls, " ")
	if want := "Connect 10.0.0.1 Close Socket Connect 2001:db8::1 Close Socket Connect 10.0.0.2 Close Socket Connect 10.0.0.3"; !strings.Contains(order, want) {
		t.Errorf("%s", order)
	}
	f.refuse["Socket"] = syscall.EMFILE
	r.Dial(target(t, "tcp", "name:9"), kernel.Addr{}, a.done)
	waitLookup(t, r)
	if a.calls != 2 || a.err != syscall.EMFILE {
		t.Errorf("%+v", a)
	}
	delete(f.refuse, "Socket")
	f.connect = func(kernel.Addr) error { return syscall.EINPROGRESS }
	f.refuse["Add"] = syscall.ENOMEM
	r.Dial(target(t, "tcp", "name:9"), kernel.Addr{}, a.done)
	waitLookup(t, r)
	if a.calls != 3 || !errors.Is(a.err, syscall.ENOMEM) {
		t.Errorf("%+v", a)
	}
	delete(f.refuse, "Add")
	f.refuse["Bind"] = syscall.EADDRNOTAVAIL
	r.Dial(target(t, "tcp", "name:9"), addr("10.9.9.9"), a.done)
	waitLookup(t, r)
	if a.calls != 4 || a.err != syscall.EADDRNOTAVAIL {
		t.Errorf("%+v", a)
	}
}

// TestDialFirstAnswerWins: the other attempts are closed.
func TestDialFirstAnswerWins(t *testing.T) {
	f, r := newFake(t)
	f.connect = func(kernel.Addr) error { return syscall.EINPROGRESS }
	f.lookup = func(context.Context) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")}, nil
	}
	var a result
	r.Dial(target(t, "tcp", "name:9"), kernel.Addr{}, a.done)
	waitLookup(t, r)
	one := f.next
	begin := f.now
	pass(t, r)
	if f.now-begin != 250*time.Millisecond {
		t.Errorf("the second attempt started after %v", f.now-begin)
	}
	two := f.next
	f.status[one] = syscall.ECONNREFUSED
	f.ready(one, kernel.Writable|kernel.Failed)
	turn(t, r) // the third attempt starts at once
	three := f.next
	if three == two || f.now-begin != 250*time.Millisecond {
		t.Errorf("no third attempt, or only after %v", f.now-begin)
	}
	f.ready(two, kernel.Writable)
	f.ready(three, kernel.Writable)
	turn(t, r)
	if a.calls != 1 || a.fd != two || a.addr != addr("10.0.0.2") || f.open[three] || f.open[one] {
		t.Errorf("%+v, open %v", a, f.open)
	}
	r.K.CloseFD(a.fd)
}

// TestDialSelfConnect: without a listener, a socket that connects to itself is refused.
func TestDialSelfConnect(t *testing.T) {
	for _, later := range []bool{false, true} {
		f, r := newFake(t)
		f.connect = func(kernel.Addr) error {
			if later {
				return syscall.EINPROGRESS
			}
			return nil
		}
		f.local = addr("10.0.0.1")
		var a result
		r.Dial(target(t, "tcp", "10.0.0.1:9"), kernel.Addr{}, a.done)
		turn(t, r)
		f.ready(f.next, kernel.Writable)
		turn(t, r)
		if a.calls != 1 || a.err != syscall.ECONNREFUSED || len(f.open) != 0 {
			t.Errorf("%+v", a)
		}
		// A caller that binds that same port wants it.
		r.Dial(target(t, "tcp", "10.0.0.1:9"), addr("10.0.0.1"), a.done)
		turn(t, r)
		f.ready(f.next, kernel.Writable)
		turn(t, r)
		if a.calls != 2 || a.err != nil {
			t.Errorf("%+v", a)
		}
		r.K.CloseFD(a.fd)
	}
}

// TestDialLoopCloses: every dial in progress fails, even if the callback of another
// panics.
func TestDialLoopCloses(t *testing.T) {
	f, r := newFake(t)
	f.connect = func(kernel.Addr) error { return syscall.EINPROGRESS }
	calls := 0
	for i := range 5 {
		d := r.Dial(target(t, "tcp", "10.0.0.1:9"), kernel.Addr{}, func(fd int, at kernel.Addr, err error) {
			if calls++; fd != -1 || !errors.Is(err, net.ErrClosed) {
				t.Errorf("%d, %v", fd, err)
			}
			r.Dial(target(t, "tcp", "10.0.0.1:9"), kernel.Addr{}, func(int, kernel.Addr, error) { calls += 100 })
			panic("oops")
		})
		if i == 2 {
			d.Cancel()
		}
	}
	turn(t, r)
	r.L.Close()
	if calls != 4 || len(f.open) != 0 {
		t.Errorf("done called %d times, open %v", calls, f.open)
	}
}

// TestDialLookupFails: the resolver's error is passed on unchanged.
func TestDialLookupFails(t *testing.T) {
	f, r := newFake(t)
	why := &net.DNSError{Err: "no such host", Name: "name"}
	f.lookup = func(context.Context) ([]netip.Addr, error) { return nil, why }
	var a result
	r.Dial(target(t, "tcp", "name:9"), kernel.Addr{}, a.done)
	waitLookup(t, r)
	if a.calls != 1 || a.err != error(why) {
		t.Errorf("%+v", a)
	}
	f.lookup = func(context.Context) ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil }
	r.Dial(target(t, "tcp6", "name:9"), kernel.Addr{}, a.done)
	waitLookup(t, r)
	var unsuitable *net.AddrError
	if a.calls != 2 || !errors.As(a.err, &unsuitable) {
		t.Errorf("%+v", a)
	}
}
