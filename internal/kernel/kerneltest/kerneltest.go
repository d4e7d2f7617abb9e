// Package kerneltest is the conformance suite of package kernel. It checks real and
// simulated kernels against the contract. It uses nothing but the kernel under test,
// so that a simulated kernel can pass it too.
package kerneltest

import (
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

// Traits describes a kernel where the contract leaves a choice.
type Traits struct {
	Edges bool // Edge reports a descriptor once per arrival, not while it is ready
}

// Run runs the suite. It calls open once per test and closes the kernel afterwards.
func Run(t *testing.T, traits Traits, open func(testing.TB) *kernel.Kernel) {
	for _, group := range [][]test{readiness, waiting, sockets, services} {
		for _, tc := range group {
			if tc.needs != nil && !tc.needs(traits) {
				continue
			}
			t.Run(tc.name, func(t *testing.T) {
				k := open(t)
				t.Cleanup(func() {
					if err := k.Close(); err != nil {
						t.Errorf("close: %v", err)
					}
					k.Wake() // allowed after Close
				})
				tc.run(&kernelT{T: t, Kernel: k})
			})
		}
	}
}

type test struct {
	name  string
	run   func(*kernelT)
	needs func(Traits) bool
}

// kernelT is a test and the kernel it tests.
type kernelT struct {
	*testing.T
	*kernel.Kernel
}

// testTimeout is far longer than any test takes. Only a failing test waits that long.
const testTimeout = 10 * time.Second

func (t *kernelT) ok(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (t *kernelT) want(got, want error) {
	t.Helper()
	if got != want {
		t.Fatalf("got error %v, want %v", got, want)
	}
}

// loopback is the loopback address with port 0, which selects a free port.
var loopback = kernel.Addr{AddrPort: netip.MustParseAddrPort("127.0.0.1:0")}

func (t *kernelT) socket(f kernel.Family, kind kernel.Type) int {
	t.Helper()
	fd, err := t.Socket(f, kind)
	t.ok(err)
	t.Cleanup(func() { t.CloseFD(fd) })
	return fd
}

// listen opens a listener and returns its descriptor and address.
func (t *kernelT) listen(at kernel.Addr) (int, kernel.Addr) {
	t.Helper()
	fd := t.socket(at.Family(), kernel.Stream)
	t.ok(t.Bind(fd, at))
	t.ok(t.Listen(fd, 16))
	addr, err := t.LocalAddr(fd)
	t.ok(err)
	return fd, addr
}

// connected connects to a listener and returns both ends of the connection.
func (t *kernelT) connected(listener int, at kernel.Addr) (client, server int) {
	t.Helper()
	client = t.socket(at.Family(), kernel.Stream)
	if err := t.Connect(client, at); err != nil {
		t.want(err, syscall.EINPROGRESS)
		t.waitReady(client, kernel.Write)
		code, err := t.Option(client, kernel.SocketError)
		t.ok(err)
		if code != 0 {
			t.Fatalf("connect: %v", syscall.Errno(code))
		}
	}
	t.waitReady(listener, kernel.Read)
	server, err := t.Accept(listener)
	t.ok(err)
	t.Cleanup(func() { t.CloseFD(server) })
	return client, server
}

// pair returns both ends of a new connection.
func (t *kernelT) pair() (client, server int) {
	t.Helper()
	return t.connected(t.listen(loopback))
}

// waitReady waits waitReady fd is ready for in and returns its readiness.
func (t *kernelT) waitReady(fd int, in kernel.Interest) kernel.Ready {
	t.Helper()
	const tok = 1<<40 | 7
	t.ok(t.Add(fd, tok, in, kernel.Level))
	ready := t.event(tok)
	t.ok(t.Delete(fd))
	return ready
}

// event waits for an event, checks that its token is tok and returns its readiness.
func (t *kernelT) event(tok kernel.Token) kernel.Ready {
	t.Helper()
	var events [8]kernel.Event
	for begin := t.Mono(); t.Mono()-begin < testTimeout; {
		n, err := t.Wait(events[:], testTimeout)
		t.ok(err)
		switch {
		case n == 1 && events[0].Token == tok:
			return events[0].Ready
		case n > 0:
			t.Fatalf("events %v, want one with token %#x", events[:n], tok)
		}
	}
	t.Fatalf("no event with token %#x", tok)
	return 0
}

// noEvents checks that nothing is ready.
func (t *kernelT) noEvents() {
	t.Helper()
	var events [8]kernel.Event
	for range 3 {
		n, err := t.Wait(events[:], 0)
		t.ok(err)
		if n > 0 {
			t.Fatalf("events %v, want none", events[:n])
		}
	}
}

func (t *kernelT) send(fd int, s string) {
	t.Helper()
	n, err := t.Send(fd, []byte(s))
	t.ok(err)
	if n != len(s) {
		t.Fatalf("sent %d of %d bytes", n, len(s))
	}
}

// recv waits for data and reads it.
func (t *kernelT) recv(fd int) string {
	t.Helper()
	t.waitReady(fd, kernel.Read)
	var buf [256]byte
	n, err := t.Recv(fd, buf[:])
	t.ok(err)
	return string(buf[:n])
}

// fill sends waitReady the connection takes no more, and returns the number of bytes.
func (t *kernelT) fill(fd int) (total int) {
	t.Helper()
	block := make([]byte, 64<<10)
	for full := 0; full < 3; {
		n, err := t.Send(fd, block)
		if err != nil {
			t.want(err, syscall.EAGAIN)
			full++ // bytes may still be moving to the peer's buffer
			var none [1]kernel.Event
			_, err := t.Wait(none[:], time.Millisecond)
			t.ok(err)
			continue
		}
		full = 0
		total += n
	}
	return total
}
