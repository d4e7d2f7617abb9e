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

// answer is what a dialing came to.
type answer struct {
	times int
	fd    int
	addr  kernel.Addr
	err   error
}

func (a *answer) done(fd int, at kernel.Addr, err error) {
	a.times++
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

// found waits for a look-up, which is on a goroutine of its own.
func found(t *testing.T, h *sock.Hub) {
	t.Helper()
	for h.L.Stats().Jobs > 0 {
		turn(t, h)
	}
	turn(t, h)
}

func TestDialAtOnce(t *testing.T) {
	f, h := newFake(t)
	f.connect = func(kernel.Addr) error { return nil }
	var a answer
	h.Dial(target(t, "tcp", "10.0.0.1:9"), kernel.Addr{}, a.done)
	if a.times != 0 {
		t.Error("done inside Dial")
	}
	turn(t, h)
	if a.times != 1 || a.err != nil || a.addr != addr("10.0.0.1") || !f.open[a.fd] {
		t.Errorf("%+v", a)
	}
	h.K.CloseFD(a.fd)
}

func TestDialLater(t *testing.T) {
	for _, status := range []syscall.Errno{0, syscall.ECONNREFUSED} {
		f, h := newFake(t)
		f.connect = func(kernel.Addr) error { return syscall.EINPROGRESS }
		var a answer
		d := h.Dial(target(t, "tcp", "10.0.0.1:9"), kernel.Addr{}, a.done)
		turn(t, h)
		if a.times != 0 || len(f.watched) != 1 || h.L.Stats().Timers != 0 {
			t.Errorf("%+v", a)
		}
		fd := f.next
		f.status[fd] = status
		f.ready(fd, kernel.Writable)
		turn(t, h)
		if status == 0 {
			if a.times != 1 || a.err != nil || a.fd != fd {
				t.Errorf("%+v", a)
			}
			h.K.CloseFD(a.fd)
		} else if a.times != 1 || a.err != status || a.fd != -1 {
			t.Errorf("%+v", a)
		}
		if d.Cancel() {
			t.Error("there was something to cancel")
		}
	}
}

// TestDialCancelled at each stage: nothing is left, and nobody told.
func TestDialCancelled(t *testing.T) {
	f, h := newFake(t)
	f.connect = func(kernel.Addr) error { return syscall.EINPROGRESS }
	begun := make(chan bool)
	var a answer
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
		d := h.Dial(to, kernel.Addr{}, a.done)
		switch stage {
		case "connecting":
			turn(t, h)
		case "two":
			found(t, h)
			pass(t, h)
			if len(f.open) != 2 {
				t.Errorf("%d tries at once", len(f.open))
			}
		case "looking up":
			<-begun // or else it would just be taken back
		}
		if !d.Cancel() || d.Cancel() {
			t.Errorf("%s: cancel", stage)
		}
		found(t, h)
		if a.times != 0 || len(f.open) != 0 || len(f.watched) != 0 || h.L.Stats().Timers != 0 {
			t.Errorf("%s: %+v, open %v", stage, a, f.open)
		}
	}
}

// TestDialAll: all addresses are tried, the families in turns, and each that fails
// at once makes way for the next.
func TestDialAll(t *testing.T) {
	f, h := newFake(t)
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
	var a answer
	h.Dial(target(t, "tcp", "name:9"), kernel.Addr{}, a.done)
	found(t, h)
	if a.times != 1 || a.err != syscall.ENETUNREACH {
		t.Errorf("%+v", a)
	}
	order := strings.Join(f.calls, " ")
	if want := "Connect 10.0.0.1 Close Socket Connect 2001:db8::1 Close Socket Connect 10.0.0.2 Close Socket Connect 10.0.0.3"; !strings.Contains(order, want) {
		t.Errorf("%s", order)
	}
	f.refuse["Socket"] = syscall.EMFILE
	h.Dial(target(t, "tcp", "name:9"), kernel.Addr{}, a.done)
	found(t, h)
	if a.times != 2 || a.err != syscall.EMFILE {
		t.Errorf("%+v", a)
	}
	delete(f.refuse, "Socket")
	f.connect = func(kernel.Addr) error { return syscall.EINPROGRESS }
	f.refuse["Add"] = syscall.ENOMEM
	h.Dial(target(t, "tcp", "name:9"), kernel.Addr{}, a.done)
	found(t, h)
	if a.times != 3 || !errors.Is(a.err, syscall.ENOMEM) {
		t.Errorf("%+v", a)
	}
	delete(f.refuse, "Add")
	f.refuse["Bind"] = syscall.EADDRNOTAVAIL
	h.Dial(target(t, "tcp", "name:9"), addr("10.9.9.9"), a.done)
	found(t, h)
	if a.times != 4 || a.err != syscall.EADDRNOTAVAIL {
		t.Errorf("%+v", a)
	}
}

// TestTheFirstToAnswerWins: and the others are closed.
func TestTheFirstToAnswerWins(t *testing.T) {
	f, h := newFake(t)
	f.connect = func(kernel.Addr) error { return syscall.EINPROGRESS }
	f.lookup = func(context.Context) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")}, nil
	}
	var a answer
	h.Dial(target(t, "tcp", "name:9"), kernel.Addr{}, a.done)
	found(t, h)
	one := f.next
	begin := f.now
	pass(t, h)
	if f.now-begin != 250*time.Millisecond {
		t.Errorf("the second came after %v", f.now-begin)
	}
	two := f.next
	f.status[one] = syscall.ECONNREFUSED
	f.ready(one, kernel.Writable|kernel.Failed)
	turn(t, h) // the third is tried at once
	three := f.next
	if three == two || f.now-begin != 250*time.Millisecond {
		t.Errorf("no third, or only after %v", f.now-begin)
	}
	f.ready(two, kernel.Writable)
	f.ready(three, kernel.Writable)
	turn(t, h)
	if a.times != 1 || a.fd != two || a.addr != addr("10.0.0.2") || f.open[three] || f.open[one] {
		t.Errorf("%+v, open %v", a, f.open)
	}
	h.K.CloseFD(a.fd)
}

// TestDialToItself: where nobody listens, a connection to itself is refused.
func TestDialToItself(t *testing.T) {
	for _, later := range []bool{false, true} {
		f, h := newFake(t)
		f.connect = func(kernel.Addr) error {
			if later {
				return syscall.EINPROGRESS
			}
			return nil
		}
		f.local = addr("10.0.0.1")
		var a answer
		h.Dial(target(t, "tcp", "10.0.0.1:9"), kernel.Addr{}, a.done)
		turn(t, h)
		f.ready(f.next, kernel.Writable)
		turn(t, h)
		if a.times != 1 || a.err != syscall.ECONNREFUSED || len(f.open) != 0 {
			t.Errorf("%+v", a)
		}
		// Who binds that very port has asked for it.
		h.Dial(target(t, "tcp", "10.0.0.1:9"), addr("10.0.0.1"), a.done)
		turn(t, h)
		f.ready(f.next, kernel.Writable)
		turn(t, h)
		if a.times != 2 || a.err != nil {
			t.Errorf("%+v", a)
		}
		h.K.CloseFD(a.fd)
	}
}

// TestDialAndTheLoopsEnd: all that are under way are told, also those behind one
// whose callback panics.
func TestDialAndTheLoopsEnd(t *testing.T) {
	f, h := newFake(t)
	f.connect = func(kernel.Addr) error { return syscall.EINPROGRESS }
	told := 0
	for i := range 5 {
		d := h.Dial(target(t, "tcp", "10.0.0.1:9"), kernel.Addr{}, func(fd int, at kernel.Addr, err error) {
			if told++; fd != -1 || !errors.Is(err, net.ErrClosed) {
				t.Errorf("%d, %v", fd, err)
			}
			h.Dial(target(t, "tcp", "10.0.0.1:9"), kernel.Addr{}, func(int, kernel.Addr, error) { told += 100 })
			panic("oops")
		})
		if i == 2 {
			d.Cancel()
		}
	}
	turn(t, h)
	h.L.Close()
	if told != 4 || len(f.open) != 0 {
		t.Errorf("told %d times, open %v", told, f.open)
	}
}

// TestLookupFails: the resolver's error is told as it is.
func TestLookupFails(t *testing.T) {
	f, h := newFake(t)
	why := &net.DNSError{Err: "no such host", Name: "name"}
	f.lookup = func(context.Context) ([]netip.Addr, error) { return nil, why }
	var a answer
	h.Dial(target(t, "tcp", "name:9"), kernel.Addr{}, a.done)
	found(t, h)
	if a.times != 1 || a.err != error(why) {
		t.Errorf("%+v", a)
	}
	f.lookup = func(context.Context) ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil }
	h.Dial(target(t, "tcp6", "name:9"), kernel.Addr{}, a.done)
	found(t, h)
	var unsuitable *net.AddrError
	if a.times != 2 || !errors.As(a.err, &unsuitable) {
		t.Errorf("%+v", a)
	}
}
