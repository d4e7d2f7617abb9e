package simkernel_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simkernel"
)

// bench has two hosts with a process each. The test makes their system calls.
type bench struct {
	*testing.T
	w            *simkernel.World
	near, far    *simkernel.Process
	there, back  *simkernel.Link
	listener     int
	listenerAddr kernel.Addr
}

func newBench(t *testing.T) *bench {
	w := simkernel.New(1)
	w.SetDelay(simkernel.Fixed(time.Millisecond))
	a, b := w.AddHost("near"), w.AddHost("far")
	bn := &bench{T: t, w: w, near: a.NewProcess(), far: b.NewProcess(), there: w.Link(a, b), back: w.Link(b, a)}
	bn.listener = bn.socket(bn.far, kernel.IPv4, kernel.Stream)
	bn.listenerAddr = addr(b, 80)
	bn.ok(bn.far.Bind(bn.listener, bn.listenerAddr))
	bn.ok(bn.far.Listen(bn.listener, 8))
	return bn
}

func addr(h *simkernel.Host, port uint16) kernel.Addr {
	return kernel.Addr{AddrPort: netip.AddrPortFrom(h.Addrs()[0], port)}
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) want(got, want error) {
	b.Helper()
	if got != want {
		b.Fatalf("got error %v, want %v", got, want)
	}
}

func (b *bench) socket(p *simkernel.Process, f kernel.Family, k kernel.Type) int {
	b.Helper()
	fd, err := p.Socket(f, k)
	b.ok(err)
	return fd
}

// pass lets time pass.
func (b *bench) pass(d time.Duration) {
	b.Helper()
	over := false
	b.w.After(d, func() { over = true })
	b.ok(b.w.Drive(func() bool { return over }))
}

// dial starts a connection to the listener.
func (b *bench) dial() int {
	b.Helper()
	fd := b.socket(b.near, kernel.IPv4, kernel.Stream)
	b.want(b.near.Connect(fd, b.listenerAddr), syscall.EINPROGRESS)
	return fd
}

// pair makes a connection from near to far.
func (b *bench) pair() (near, far int) {
	b.Helper()
	near = b.dial()
	b.pass(10 * time.Millisecond)
	b.outcome(near, 0)
	far, err := b.far.Accept(b.listener)
	b.ok(err)
	return near, far
}

// outcome checks the pending error of a socket of near.
func (b *bench) outcome(fd int, want syscall.Errno) {
	b.Helper()
	code, err := b.near.Option(fd, kernel.SocketError)
	b.ok(err)
	if syscall.Errno(code) != want {
		b.Fatalf("outcome %v, want %v", syscall.Errno(code), want)
	}
}

func (b *bench) recv(p *simkernel.Process, fd int) string {
	b.Helper()
	buf := make([]byte, 1<<20)
	n, err := p.Recv(fd, buf)
	b.ok(err)
	return string(buf[:n])
}

func TestALostConnectIsRetried(t *testing.T) {
	b := newBench(t)
	b.there.Cut(true)
	fd := b.dial()
	b.pass(2 * time.Second)
	b.there.Cut(false)
	b.pass(2 * time.Second) // attempts at 0, 1, 3 … seconds
	b.outcome(fd, 0)
	if _, err := b.near.PeerAddr(fd); err != nil {
		t.Error(err)
	}
}

func TestAConnectTimesOut(t *testing.T) {
	for _, way := range []string{"there", "back", "crash"} {
		t.Run(way, func(t *testing.T) {
			b := newBench(t)
			switch way {
			case "there":
				b.there.Cut(true)
			case "back":
				b.back.Cut(true)
			case "crash":
				b.far.Host().Crash()
			}
			fd := b.dial()
			b.pass(100 * time.Second)
			b.outcome(fd, 0)
			b.pass(100 * time.Second)
			b.outcome(fd, syscall.ETIMEDOUT)
		})
	}
}

func TestBacklogIsALimit(t *testing.T) {
	b := newBench(t)
	b.ok(b.far.Listen(b.listener, 1)) // and one more, as in Linux
	fds := []int{b.dial(), b.dial()}
	b.pass(10 * time.Millisecond)
	fds = append(fds, b.dial())
	b.pass(500 * time.Millisecond)
	connected := 0
	for _, fd := range fds {
		if _, err := b.near.PeerAddr(fd); err == nil {
			connected++
		}
	}
	if connected != 2 {
		t.Errorf("%d of 3 are connected", connected)
	}
	_, err := b.far.Accept(b.listener)
	b.ok(err)
	b.pass(5 * time.Second) // the third tries again
	for _, fd := range fds {
		if _, err := b.near.PeerAddr(fd); err != nil {
			t.Error(err)
		}
	}
}

// TestManyConnectAtOnce: more than the backlog. All are accepted in the end.
func TestManyConnectAtOnce(t *testing.T) {
	b := newBench(t)
	b.ok(b.far.Listen(b.listener, 1))
	const many = 6
	for range many {
		b.dial()
	}
	b.pass(500 * time.Millisecond)
	accepted := 0
	for range 200 {
		if _, err := b.far.Accept(b.listener); err == nil {
			accepted++
		}
		b.pass(100 * time.Millisecond)
	}
	if accepted != many {
		t.Errorf("%d of %d were accepted", accepted, many)
	}
}

func TestWindowsLimitTheSender(t *testing.T) {
	b := newBench(t)
	near, far := b.pair()
	block := make([]byte, 16<<10)
	total := 0
	for range 100 {
		n, err := b.near.Send(near, block)
		if err != nil {
			b.want(err, syscall.EAGAIN)
		}
		total += n
		b.pass(10 * time.Millisecond)
	}
	if total != 128<<10 { // a buffer at each end
		t.Errorf("%d bytes were accepted without a reader", total)
	}
	for got := 0; got < total; b.pass(10 * time.Millisecond) {
		n := len(b.recv(b.far, far))
		got += n
	}
	if n, err := b.near.Send(near, block); n != len(block) || err != nil {
		t.Errorf("%d, %v after all was read", n, err)
	}
}

func TestSlowLinksTakeTheirTime(t *testing.T) {
	b := newBench(t)
	near, far := b.pair()
	b.there.Rate = 10000
	_, err := b.near.Send(near, make([]byte, 20000))
	b.ok(err)
	b.pass(1900 * time.Millisecond)
	_, err = b.far.Recv(far, make([]byte, 1<<20))
	b.want(err, syscall.EAGAIN)
	b.pass(200 * time.Millisecond)
	if n := len(b.recv(b.far, far)); n != 20000 {
		t.Errorf("%d bytes", n)
	}
}

func TestDribbleCutsSegments(t *testing.T) {
	b := newBench(t)
	near, far := b.pair()
	b.there.Dribble = 1
	b.there.Delay = simkernel.Uniform(time.Millisecond, 10*time.Millisecond)
	_, err := b.near.Send(near, bytes.Repeat([]byte("x"), 1000))
	b.ok(err)
	reads, got := 0, 0
	for got < 1000 {
		b.pass(time.Millisecond / 2)
		buf := make([]byte, 1<<20)
		if n, err := b.far.Recv(far, buf); err == nil {
			reads++
			got += n
		}
	}
	if reads < 3 {
		t.Errorf("1000 bytes in %d reads", reads)
	}
}

func ExampleWorld_Trace() {
	w := simkernel.New(1)
	w.SetDelay(simkernel.Fixed(time.Millisecond))
	a, b := w.AddHost("a"), w.AddHost("b")
	p := a.NewProcess()
	fd, _ := p.Socket(kernel.IPv4, kernel.Datagram)
	p.SendTo(fd, []byte("are you there?"), addr(b, 9))
	w.Link(a, b).Cut(true)
	p.SendTo(fd, []byte("hello?"), addr(b, 9))
	w.Drive(func() bool { return w.Events() == 3 })
	for _, e := range w.Trace() {
		fmt.Println(e)
	}
	// Output:
	//           0s  a is partitioned from b
	//           0s  a cannot reach b:9, 6 bytes "hello?" (partition)
	//          1ms  a cannot reach b:9, 14 bytes "are you there?" (no socket)
}

func loopbackPort(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
}
