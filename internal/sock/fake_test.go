package sock_test

import (
	"context"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// fake is a kernel with scripted results. It records its calls. Its sockets are plain
// numbers.
type fake struct {
	kernel.Sockets // nil: unexpected calls panic
	now            time.Duration
	calls          []string
	open           map[int]bool
	watched        map[int]watching
	events         []kernel.Event
	woken          bool
	next           int

	accepts []error // one for each Accept; then EAGAIN
	connect func(a kernel.Addr) error
	status  map[int]syscall.Errno // SocketError
	v6Only  int                   // IPv6Only; a test sets the system's default
	local   kernel.Addr
	refuse  map[string]error // calls that fail
	lookup  func(ctx context.Context) ([]netip.Addr, error)
}

type watching struct {
	tok  kernel.Token
	in   kernel.Interest
	mode kernel.Mode
}

func newFake(t *testing.T) (*fake, *sock.Registry) {
	t.Helper()
	f := &fake{open: map[int]bool{}, watched: map[int]watching{}, next: 100, status: map[int]syscall.Errno{}, refuse: map[string]error{}}
	k, err := kernel.Open("")
	if err != nil {
		t.Fatal(err)
	}
	k.Poller.Close()
	l, err := loop.New(loop.Internal().WithKernel(loop.Options{Watchdog: -1}, &kernel.Kernel{
		Poller: f, Sockets: f, Clock: f, Rand: k.Rand, Workers: f, Resolver: f, Follower: k,
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		if len(f.open) != 0 || len(f.watched) != 0 {
			t.Errorf("left open: %v, watched: %v", f.open, f.watched)
		}
	})
	return f, sock.RegistryOf(l)
}

func (f *fake) did(call string) error {
	f.calls = append(f.calls, call)
	return f.refuse[call]
}

func (f *fake) count(call string) (n int) {
	for _, c := range f.calls {
		if c == call {
			n++
		}
	}
	return n
}

func (f *fake) Name() string                  { return "fake" }
func (f *fake) Mono() time.Duration           { return f.now }
func (f *fake) Wall() time.Time               { return time.Unix(0, 0).Add(f.now) }
func (*fake) At(mono time.Duration) time.Time { return time.Unix(0, 0).Add(mono) }
func (f *fake) Wake()                         { f.woken = true }
func (f *fake) Close() error                  { return nil }
func (f *fake) Start(work func())             { go work() }

func (f *fake) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return f.lookup(ctx)
}

func (f *fake) Add(fd int, tok kernel.Token, in kernel.Interest, mode kernel.Mode) error {
	if err := f.did("Add"); err != nil {
		return err
	}
	f.watched[fd] = watching{tok, in, mode}
	return nil
}

func (f *fake) Modify(fd int, tok kernel.Token, in kernel.Interest, mode kernel.Mode) error {
	if err := f.did("Modify"); err != nil {
		return err
	}
	f.watched[fd] = watching{tok, in, mode}
	return nil
}

func (f *fake) Delete(fd int) error {
	delete(f.watched, fd)
	return nil
}

// Wait returns the events queued by the test. The listener, descriptor 7, is ready
// while accepts is not empty.
func (f *fake) Wait(events []kernel.Event, timeout time.Duration) (int, error) {
	n := copy(events, f.events)
	f.events = nil
	for fd, w := range f.watched {
		if w.mode == kernel.Level && w.in == kernel.Read && fd == 7 && len(f.accepts) > 0 {
			events[n] = kernel.Event{Token: w.tok, Ready: kernel.Readable}
			n++
		}
	}
	if n == 0 && timeout > 0 {
		f.now += timeout
	}
	return n, nil
}

// ready makes a descriptor ready in the next Wait, if it is watched.
func (f *fake) ready(fd int, r kernel.Ready) {
	if w, ok := f.watched[fd]; ok {
		f.events = append(f.events, kernel.Event{Token: w.tok, Ready: r})
	}
}

func (f *fake) Socket(kernel.Family, kernel.Type) (int, error) {
	if err := f.did("Socket"); err != nil {
		return -1, err
	}
	f.next++
	f.open[f.next] = true
	return f.next, nil
}

func (f *fake) CloseFD(fd int) error {
	delete(f.open, fd)
	return f.did("Close")
}

func (f *fake) Bind(int, kernel.Addr) error { return f.did("Bind") }
func (f *fake) Listen(int, int) error       { return f.did("Listen") }

func (f *fake) SetOption(fd int, o kernel.Option, value int) error {
	if o == kernel.IPv6Only {
		f.v6Only = value
	}
	return f.did("SetOption")
}

func (f *fake) Accept(int) (int, error) {
	f.did("Accept")
	if len(f.accepts) == 0 {
		return -1, syscall.EAGAIN
	}
	err := f.accepts[0]
	f.accepts = f.accepts[1:]
	if err != nil {
		return -1, err
	}
	f.next++
	f.open[f.next] = true
	return f.next, nil
}

func (f *fake) Connect(fd int, a kernel.Addr) error {
	f.did("Connect " + a.Addr().String())
	return f.connect(a)
}

func (f *fake) Option(fd int, o kernel.Option) (int, error) {
	return int(f.status[fd]), f.did("Option")
}

func (f *fake) LocalAddr(int) (kernel.Addr, error) { return f.local, f.did("LocalAddr") }

// turn runs the loop until nothing is ready at the current time.
func turn(t *testing.T, r *sock.Registry) {
	t.Helper()
	for range 100 {
		n, err := r.L.RunOnce(0)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
	t.Fatal("the loop spins")
}

// pass advances time to the next timer and runs it.
func pass(t *testing.T, r *sock.Registry) {
	t.Helper()
	if _, err := r.L.RunOnce(time.Hour); err != nil {
		t.Fatal(err)
	}
	turn(t, r)
}

func addr(s string) kernel.Addr {
	return kernel.Addr{AddrPort: netip.AddrPortFrom(netip.MustParseAddr(s), 9)}
}
