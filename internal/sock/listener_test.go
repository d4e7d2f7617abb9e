package sock_test

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// listening is a listener on descriptor 7 that records its callbacks.
type listening struct {
	*sock.Listener
	accepted int
	failures []error
	onAccept func()
	onError  func()
}

func listen(t *testing.T, f *fake, r *sock.Registry) *listening {
	t.Helper()
	ln := &listening{}
	f.open[7] = true
	var err error
	ln.Listener, err = r.Listen(7, func(fd int) {
		ln.accepted++
		r.K.CloseFD(fd)
		if ln.onAccept != nil {
			ln.onAccept()
		}
	}, func(err error) {
		ln.failures = append(ln.failures, err)
		if ln.onError != nil {
			ln.onError()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// turnOnce runs one turn of the loop, in which the listener accepts one batch.
func turnOnce(t *testing.T, r *sock.Registry) {
	t.Helper()
	if _, err := r.L.RunOnce(0); err != nil {
		t.Fatal(err)
	}
}

func TestBackOff(t *testing.T) {
	for _, fault := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		f, r := newFake(t)
		ln := listen(t, f, r)
		f.accepts = []error{nil, fault}
		turnOnce(t, r)
		if ln.accepted != 1 || len(ln.failures) != 1 || ln.failures[0] != fault {
			t.Fatalf("accepted %d, failures %v", ln.accepted, ln.failures)
		}
		if len(f.watched) != 0 {
			t.Fatal("the listener is still watched after a failure")
		}
		turn(t, r) // nothing is left to do: the loop does not spin
		f.calls = nil
		f.accepts = slices.Repeat([]error{fault}, 3)
		for i := range 3 {
			before := f.now
			pass(t, r)
			if f.now-before < 10*time.Millisecond || f.count("Accept") != i+1 {
				t.Fatalf("retry %d came after %v, %d accepts", i, f.now-before, f.count("Accept"))
			}
		}
		if len(ln.failures) != 1 {
			t.Fatalf("%d calls of failed for one period", len(ln.failures))
		}
		f.accepts = []error{nil, nil}
		if _, err := r.L.RunOnce(time.Hour); err != nil {
			t.Fatal(err)
		}
		turnOnce(t, r)
		if ln.accepted != 3 || len(f.watched) != 1 {
			t.Fatalf("accepted %d, watched %d", ln.accepted, len(f.watched))
		}
		f.accepts = []error{fault}
		turnOnce(t, r)
		if len(ln.failures) != 2 {
			t.Fatalf("%d calls of failed for two periods", len(ln.failures))
		}
		ln.Close()
		if r.L.Stats().Timers != 0 {
			t.Fatal("a closed listener has a timer")
		}
	}
}

// TestAcceptBatch: a flood of connections does not starve other callbacks.
func TestAcceptBatch(t *testing.T) {
	f, r := newFake(t)
	ln := listen(t, f, r)
	f.accepts = make([]error, 1000)
	turnOnce(t, r)
	if ln.accepted == 0 || ln.accepted >= 500 {
		t.Errorf("%d accepted in one turn", ln.accepted)
	}
	f.accepts = slices.Repeat([]error{syscall.ECONNABORTED}, 1000)
	f.calls = nil
	turnOnce(t, r)
	if n := f.count("Accept"); n < 2 || n >= 500 || len(ln.failures) != 0 {
		t.Errorf("%d accepts, failures %v", n, ln.failures)
	}
}

// TestPauseAndResume: Pause and Resume outside of callbacks, inside accept, while
// backing off, and on a closed listener.
func TestPauseAndResume(t *testing.T) {
	f, r := newFake(t)
	ln := listen(t, f, r)
	ln.Resume()
	ln.Pause()
	ln.Pause()
	f.accepts = make([]error, 3)
	turn(t, r)
	if ln.accepted != 0 || len(f.watched) != 0 {
		t.Error("a paused listener accepts")
	}
	ln.onAccept = ln.Pause
	ln.Resume()
	turnOnce(t, r)
	if ln.accepted != 1 {
		t.Errorf("%d accepted after a pause", ln.accepted)
	}
	ln.onAccept = nil
	f.accepts = []error{syscall.EMFILE}
	ln.Resume()
	turnOnce(t, r)
	ln.Pause()
	if n := r.L.Stats().Timers; n != 0 {
		t.Errorf("%d timers while paused", n)
	}
	f.accepts = make([]error, 2)
	ln.Resume()
	turnOnce(t, r)
	if ln.accepted != 3 {
		t.Errorf("%d accepted", ln.accepted)
	}
	ln.onAccept = func() { ln.Close() }
	f.accepts = make([]error, 5)
	turnOnce(t, r)
	if ln.accepted != 4 || ln.FD() != -1 || f.open[7] {
		t.Errorf("%d accepted, descriptor %d", ln.accepted, ln.FD())
	}
	ln.Resume()
	if err := ln.Close(); err != nil || f.count("Close") != 5 {
		t.Errorf("closed %d times, %v", f.count("Close"), err)
	}
}

// TestBackOffAgain: a listener that cannot be watched after backing off backs off again.
func TestBackOffAgain(t *testing.T) {
	f, r := newFake(t)
	ln := listen(t, f, r)
	f.accepts = []error{syscall.EMFILE}
	turnOnce(t, r)
	f.refuse["Add"] = syscall.ENOMEM
	pass(t, r)
	pass(t, r)
	if len(ln.failures) != 1 || f.count("Add") != 3 {
		t.Errorf("failures %v, %d attempts to watch", ln.failures, f.count("Add"))
	}
	delete(f.refuse, "Add")
	f.accepts = []error{nil}
	pass(t, r)
	turnOnce(t, r)
	if ln.accepted != 1 {
		t.Errorf("%d accepted", ln.accepted)
	}
	ln.Pause()
	f.refuse["Add"] = syscall.ENOMEM
	ln.Resume()
	if len(ln.failures) != 2 || !errors.Is(ln.failures[1], syscall.ENOMEM) {
		t.Errorf("failures %v", ln.failures)
	}
	delete(f.refuse, "Add")
	f.accepts = []error{nil}
	pass(t, r)
	turnOnce(t, r)
	if ln.accepted != 2 {
		t.Errorf("%d accepted", ln.accepted)
	}
	if _, err := r.Listen(8, nil, nil); err != nil {
		t.Error(err)
	}
	f.refuse["Add"] = syscall.ENOMEM
	if _, err := r.Listen(9, nil, nil); !errors.Is(err, syscall.ENOMEM) {
		t.Error(err)
	}
}

// TestBind: a step that fails closes the descriptor.
func TestBind(t *testing.T) {
	for _, step := range []string{"Socket", "SetOption", "Bind", "Listen"} {
		f, r := newFake(t)
		f.refuse[step] = syscall.EADDRINUSE
		fd, err := r.Bind(addr("::1"), sock.Binding{ReusePort: true, V6Only: true})
		if fd != -1 || err != syscall.EADDRINUSE {
			t.Errorf("%s: %d, %v", step, fd, err)
		}
	}
	f, r := newFake(t)
	fd, err := r.Bind(addr("::1"), sock.Binding{ReusePort: true, V6Only: true})
	if err != nil || f.count("SetOption") != 3 {
		t.Errorf("%d options, %v", f.count("SetOption"), err)
	}
	r.K.CloseFD(fd)
	fd, err = r.Bind(kernel.Addr{Path: "@x"}, sock.Binding{})
	if err != nil || f.count("SetOption") != 3 {
		t.Errorf("%d options, %v", f.count("SetOption"), err)
	}
	r.K.CloseFD(fd)
}

// v6OnlyCases are sockets of IPv6, and whether each takes only IPv6.
var v6OnlyCases = []struct {
	name string
	make func(r *sock.Registry) (fd int, err error)
	want int
}{
	{"tcp", func(r *sock.Registry) (int, error) { return r.Bind(anyIPv6, sock.Binding{}) }, 0},
	{"tcp6", func(r *sock.Registry) (int, error) { return r.Bind(anyIPv6, sock.Binding{V6Only: true}) }, 1},
	{"udp", func(r *sock.Registry) (int, error) {
		return r.Datagram(sock.DatagramBinding{Family: kernel.IPv6})
	}, 0},
	{"udp6", func(r *sock.Registry) (int, error) {
		return r.Datagram(sock.DatagramBinding{Family: kernel.IPv6, V6Only: true})
	}, 1},
}

var anyIPv6 = kernel.Addr{AddrPort: netip.AddrPortFrom(netip.IPv6Unspecified(), 0)}

// TestV6OnlyDoesNotDependOnTheSystem: the system's default decides nothing, and a system
// that refuses sockets for both protocols has sockets for IPv6.
func TestV6OnlyDoesNotDependOnTheSystem(t *testing.T) {
	for _, c := range v6OnlyCases {
		f, r := newFake(t)
		f.v6Only = 1 - c.want
		fd, err := c.make(r)
		if err != nil || f.v6Only != c.want {
			t.Errorf("%s: %v, the option is %d, want %d", c.name, err, f.v6Only, c.want)
		}
		r.K.CloseFD(fd)
	}
	f, r := newFake(t)
	f.refuse["SetOption"] = syscall.EINVAL
	fd, err := r.Datagram(sock.DatagramBinding{Family: kernel.IPv6})
	if err != nil {
		t.Errorf("refused: %v", err)
	}
	r.K.CloseFD(fd)
}

// TestV6OnlyInTheKernel reads the option back.
func TestV6OnlyInTheKernel(t *testing.T) {
	l, err := loop.New(loop.Options{Watchdog: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := sock.RegistryOf(l)
	for _, c := range v6OnlyCases {
		fd, err := c.make(r)
		if errors.Is(err, syscall.EAFNOSUPPORT) {
			t.Skipf("no IPv6 here: %v", err)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got, err := r.K.Option(fd, kernel.IPv6Only); err != nil || got != c.want {
			t.Errorf("%s: %d, %v, want %d", c.name, got, err, c.want)
		}
		r.K.CloseFD(fd)
	}
}
