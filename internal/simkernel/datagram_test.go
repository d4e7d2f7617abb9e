package simkernel_test

import (
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simkernel"
)

// datagrams returns a sending socket on near and a receiving one on far.
func (b *bench) datagrams() (from, to int, at kernel.Addr) {
	b.Helper()
	from, to = b.socket(b.near, kernel.IPv4, kernel.Datagram), b.socket(b.far, kernel.IPv4, kernel.Datagram)
	at = addr(b.far.Host(), 53)
	b.ok(b.far.Bind(to, at))
	return from, to, at
}

// exchange sends n numbers as datagrams and returns those that arrived, in order.
func (b *bench) exchange(n int) (got []string) {
	b.Helper()
	from, to, at := b.datagrams()
	for i := range n {
		_, err := b.near.SendTo(from, []byte(fmt.Sprint(i)), at)
		b.ok(err)
		b.pass(100 * time.Microsecond)
	}
	b.pass(time.Second)
	buf := make([]byte, 64)
	for {
		n, _, _, err := b.far.RecvFrom(to, buf)
		if err != nil {
			b.want(err, syscall.EAGAIN)
			return got
		}
		got = append(got, string(buf[:n]))
	}
}

func TestDatagramsAreLostDuplicatedAndReordered(t *testing.T) {
	b := newBench(t)
	if got := b.exchange(100); len(got) != 100 || got[99] != "99" {
		t.Errorf("on a good link: %v", got)
	}
	b = newBench(t)
	b.there.Loss = 0.5
	if got := b.exchange(100); len(got) < 30 || len(got) > 70 {
		t.Errorf("half are lost: %d arrived", len(got))
	}
	b = newBench(t)
	b.there.Duplicate = 0.5
	if got := b.exchange(100); len(got) < 130 || len(got) > 170 {
		t.Errorf("half come twice: %d arrived", len(got))
	}
	b = newBench(t)
	b.there.Reorder = 0.2
	got := b.exchange(100)
	overtaken := 0
	for i := range got {
		if got[i] != fmt.Sprint(i) {
			overtaken++
		}
	}
	if len(got) != 100 || overtaken < 20 {
		t.Errorf("some are overtaken: %v", got)
	}
	b = newBench(t)
	b.there.Cut(true)
	if got := b.exchange(10); got != nil {
		t.Errorf("through a cut: %v", got)
	}
}

// TestRefusalReachesConnectedDatagrams: as with ICMP, only connected sockets get it.
func TestRefusalReachesConnectedDatagrams(t *testing.T) {
	b := newBench(t)
	loose, tied := b.socket(b.near, kernel.IPv4, kernel.Datagram), b.socket(b.near, kernel.IPv4, kernel.Datagram)
	at := addr(b.far.Host(), 9)
	b.ok(b.near.Connect(tied, at))
	b.ok(b.near.Add(tied, 1, kernel.Read, kernel.Level))
	_, err := b.near.SendTo(loose, []byte("x"), at)
	b.ok(err)
	_, err = b.near.Send(tied, []byte("x"))
	b.ok(err)
	var events [4]kernel.Event
	n, err := b.near.Wait(events[:], time.Second)
	b.ok(err)
	if n != 1 || events[0].Ready&kernel.Failed == 0 {
		t.Errorf("events %v", events[:n])
	}
	_, err = b.near.Recv(tied, make([]byte, 8))
	b.want(err, syscall.ECONNREFUSED)
	_, err = b.near.Recv(tied, make([]byte, 8))
	b.want(err, syscall.EAGAIN)
	_, err = b.near.Recv(loose, make([]byte, 8))
	b.want(err, syscall.EAGAIN)
}

// TestAConnectedDatagramSocketReceivesOnlyFromItsPeer: other datagrams are dropped.
func TestAConnectedDatagramSocketReceivesOnlyFromItsPeer(t *testing.T) {
	b := newBench(t)
	_, to, at := b.datagrams()
	peer, other := b.socket(b.near, kernel.IPv4, kernel.Datagram), b.socket(b.near, kernel.IPv4, kernel.Datagram)
	b.ok(b.near.Bind(peer, addr(b.near.Host(), 1000)))
	b.ok(b.far.Connect(to, addr(b.near.Host(), 1000)))
	for _, fd := range []int{peer, other} {
		_, err := b.near.SendTo(fd, []byte{byte(fd)}, at)
		b.ok(err)
	}
	b.pass(time.Second)
	if got := b.recv(b.far, to); got != string([]byte{byte(peer)}) {
		t.Errorf("got %q", got)
	}
	_, err := b.far.Recv(to, make([]byte, 8))
	b.want(err, syscall.EAGAIN)
}

func TestDatagramsOnASlowLinkFillTheBuffer(t *testing.T) {
	b := newBench(t)
	b.there.Rate = 1 << 20
	from, to, at := b.datagrams()
	b.ok(b.near.Add(from, 1, kernel.Write, kernel.Edge))
	var events [4]kernel.Event
	if n, err := b.near.Wait(events[:], 0); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	sent := 0
	for ; ; sent++ {
		_, err := b.near.SendTo(from, make([]byte, 10000), at)
		if err == syscall.EAGAIN {
			break
		}
		b.ok(err)
	}
	if sent < 10 || sent > 30 {
		t.Errorf("%d datagrams fitted", sent)
	}
	if n, err := b.near.Wait(events[:], time.Minute); n != 1 || err != nil || events[0].Ready != kernel.Writable {
		t.Errorf("%v, %v: the socket does not become writable", events[:n], err)
	}
	for range sent {
		b.pass(20 * time.Millisecond)
		if n := len(b.recv(b.far, to)); n != 10000 {
			t.Errorf("%d bytes", n)
		}
	}
}

func TestBroadcast(t *testing.T) {
	b := newBench(t)
	from, to, _ := b.datagrams()
	all := kernel.Addr{AddrPort: netip.MustParseAddrPort("255.255.255.255:53")}
	_, err := b.near.SendTo(from, []byte("all"), all)
	b.want(err, syscall.EACCES)
	b.ok(b.near.SetOption(from, kernel.Broadcast, 1))
	_, err = b.near.SendTo(from, []byte("all"), all)
	b.ok(err)
	b.pass(time.Second)
	if got := b.recv(b.far, to); got != "all" {
		t.Errorf("got %q", got)
	}
}

// TestBroadcastUsesIPv4: each host gets it at its first IPv4 address. A host without one does
// not get it.
func TestBroadcastUsesIPv4(t *testing.T) {
	w := simkernel.New(1)
	b := &bench{T: t, w: w}
	w.AddHost("modern", netip.MustParseAddr("fd00::3"))
	b.near = w.AddHost("near", netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.1")).NewProcess()
	b.far = w.AddHost("far", netip.MustParseAddr("fd00::2"), netip.MustParseAddr("10.0.0.2")).NewProcess()
	from, to := b.socket(b.near, kernel.IPv4, kernel.Datagram), b.socket(b.far, kernel.IPv4, kernel.Datagram)
	b.ok(b.far.Bind(to, kernel.Addr{AddrPort: netip.MustParseAddrPort("0.0.0.0:53")}))
	b.ok(b.near.SetOption(from, kernel.Broadcast, 1))
	_, err := b.near.SendTo(from, []byte("all"), kernel.Addr{AddrPort: netip.MustParseAddrPort("255.255.255.255:53")})
	b.ok(err)
	b.pass(time.Second)
	buf := make([]byte, 8)
	n, sender, _, err := b.far.RecvFrom(to, buf)
	b.ok(err)
	if string(buf[:n]) != "all" || sender.Addr() != netip.MustParseAddr("10.0.0.1") {
		t.Errorf("got %q from %v", buf[:n], sender)
	}
}

// TestReusePortSpreadsSenders: each sender is assigned to one of the sockets.
func TestReusePortSpreadsSenders(t *testing.T) {
	b := newBench(t)
	at := addr(b.far.Host(), 53)
	var to [3]int
	for i := range to {
		to[i] = b.socket(b.far, kernel.IPv4, kernel.Datagram)
		b.ok(b.far.SetOption(to[i], kernel.ReusePort, 1))
		b.ok(b.far.Bind(to[i], at))
	}
	for range 30 {
		from := b.socket(b.near, kernel.IPv4, kernel.Datagram)
		_, err := b.near.SendTo(from, []byte("x"), at)
		b.ok(err)
	}
	b.pass(time.Second)
	for _, fd := range to {
		n := 0
		for ; ; n++ {
			if _, err := b.far.Recv(fd, make([]byte, 8)); err != nil {
				break
			}
		}
		if n < 3 {
			t.Errorf("one of three got %d of 30", n)
		}
	}
}

// TestARefusalOfAnEarlierPeerIsIgnored: the socket was connected to another peer since.
func TestARefusalOfAnEarlierPeerIsIgnored(t *testing.T) {
	b := newBench(t)
	fd := b.socket(b.near, kernel.IPv4, kernel.Datagram)
	b.ok(b.near.Connect(fd, addr(b.far.Host(), 9)))
	_, err := b.near.Send(fd, []byte("x"))
	b.ok(err)
	b.ok(b.near.Connect(fd, addr(b.far.Host(), 10)))
	b.pass(time.Second)
	b.outcome(fd, 0)
}
