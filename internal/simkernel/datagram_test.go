package simkernel_test

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simkernel"
)

// datagrams is a sender on near, and a receiver on far.
func (b *bench) datagrams() (from, to int, at kernel.Addr) {
	b.Helper()
	from, to = b.socket(b.near, kernel.IPv4, kernel.Datagram), b.socket(b.far, kernel.IPv4, kernel.Datagram)
	at = addr(b.far.Host(), 53)
	b.ok(b.far.Bind(to, at))
	return from, to, at
}

// burst sends numbers, and tells which arrived, in order.
func (b *bench) burst(n int) (got []string) {
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

func TestDatagramsAreLostDoubledAndOvertaken(t *testing.T) {
	b := newBench(t)
	if got := b.burst(100); len(got) != 100 || got[99] != "99" {
		t.Errorf("on a good link: %v", got)
	}
	b = newBench(t)
	b.there.Loss = 0.5
	if got := b.burst(100); len(got) < 30 || len(got) > 70 {
		t.Errorf("half are lost: %d arrived", len(got))
	}
	b = newBench(t)
	b.there.Duplicate = 0.5
	if got := b.burst(100); len(got) < 130 || len(got) > 170 {
		t.Errorf("half come twice: %d arrived", len(got))
	}
	b = newBench(t)
	b.there.Reorder = 0.2
	got := b.burst(100)
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
	if got := b.burst(10); got != nil {
		t.Errorf("through a cut: %v", got)
	}
}

// TestRefusalReachesConnectedDatagrams: as by ICMP, and nobody else.
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

// TestAConnectedDatagramSocketHearsOnlyItsPeer, and one that shares its port the
// others.
func TestAConnectedDatagramSocketHearsOnlyItsPeer(t *testing.T) {
	b := newBench(t)
	_, to, at := b.datagrams()
	friend, stranger := b.socket(b.near, kernel.IPv4, kernel.Datagram), b.socket(b.near, kernel.IPv4, kernel.Datagram)
	b.ok(b.near.Bind(friend, addr(b.near.Host(), 1000)))
	b.ok(b.far.Connect(to, addr(b.near.Host(), 1000)))
	for _, fd := range []int{friend, stranger} {
		_, err := b.near.SendTo(fd, []byte{byte(fd)}, at)
		b.ok(err)
	}
	b.pass(time.Second)
	if got := b.recv(b.far, to); got != string([]byte{byte(friend)}) {
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
		t.Errorf("%v, %v: no word of room", events[:n], err)
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
	everybody := kernel.Addr{AddrPort: netip.MustParseAddrPort("255.255.255.255:53")}
	_, err := b.near.SendTo(from, []byte("all"), everybody)
	b.want(err, syscall.EACCES)
	b.ok(b.near.SetOption(from, kernel.Broadcast, 1))
	_, err = b.near.SendTo(from, []byte("all"), everybody)
	b.ok(err)
	b.pass(time.Second)
	if got := b.recv(b.far, to); got != "all" {
		t.Errorf("got %q", got)
	}
}

// TestReusePortSpreadsSenders, each to one of the sockets.
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

func TestUnixDatagrams(t *testing.T) {
	b := newBench(t)
	p := b.near
	to, from := b.socket(p, kernel.Unix, kernel.Datagram), b.socket(p, kernel.Unix, kernel.Datagram)
	at := kernel.Addr{Path: "/run/log"}
	_, err := p.SendTo(from, []byte("x"), at)
	b.want(err, syscall.ENOENT)
	b.ok(p.Bind(to, at))
	b.ok(p.Bind(from, kernel.Addr{Path: "\x00me"}))
	b.ok(p.Connect(from, at))
	sent := 0
	for ; sent < 100; sent++ {
		if _, err = p.Send(from, []byte("x")); err != nil {
			break
		}
	}
	b.want(err, syscall.EAGAIN)
	b.ok(p.Add(from, 1, kernel.Write, kernel.Edge))
	_, sender, truncated, err := p.RecvFrom(to, make([]byte, 8))
	if err != nil || sender.Path != "@me" || truncated {
		t.Errorf("from %v, truncated %v, %v", sender, truncated, err)
	}
	var events [2]kernel.Event
	if n, err := p.Wait(events[:], time.Second); n != 1 || err != nil {
		t.Errorf("%d events, %v: no word of room", n, err)
	}
	_, err = b.far.SendTo(b.socket(b.far, kernel.Unix, kernel.Datagram), []byte("x"), at)
	b.want(err, syscall.ENOENT) // another host's
	b.ok(p.CloseFD(to))
	_, err = p.Send(from, []byte("x"))
	b.want(err, syscall.ECONNREFUSED)
}

func TestPipes(t *testing.T) {
	b := newBench(t)
	p := b.near
	r, w, err := p.Pipe()
	b.ok(err)
	_, err = p.Read(r, make([]byte, 8))
	b.want(err, syscall.EAGAIN)
	_, err = p.Recv(r, make([]byte, 8))
	b.want(err, syscall.ENOTSOCK)
	b.ok(p.Add(r, 1, kernel.Read, kernel.Edge))
	_, err = p.Write(w, []byte(strings.Repeat("x", 100)))
	b.ok(err)
	var events [2]kernel.Event
	if n, err := p.Wait(events[:], -1); n != 1 || err != nil || events[0].Ready != kernel.Readable {
		t.Errorf("events %v, %v", events[:n], err)
	}
	b.ok(p.CloseFD(w))
	if n, err := p.Wait(events[:], -1); n != 1 || err != nil || events[0].Ready&kernel.HangUp == 0 {
		t.Errorf("events %v, %v", events[:n], err)
	}
	for _, want := range []int{100, 0} {
		if n, err := p.Read(r, make([]byte, 256)); n != want || err != nil {
			t.Errorf("read %d, %v, want %d", n, err, want)
		}
	}
	b.ok(p.CloseFD(r))
	r, w, err = p.Pipe()
	b.ok(err)
	b.ok(p.CloseFD(r))
	_, err = p.Write(w, []byte("x"))
	b.want(err, syscall.EPIPE)
}

// TestClocksGoAstray: a fast one fires early, in the world's time, and never
// before its own.
func TestClocksGoAstray(t *testing.T) {
	for _, ppm := range []int{0, 1, -1, 100, -100, 500000, -500000, 333333} {
		w := simkernel.New(1)
		h := w.AddHost("h")
		p := h.NewProcess()
		w.AddHost("idle")
		h.SetClock(time.Hour, ppm)
		var events [1]kernel.Event
		for _, d := range []time.Duration{1, 999, time.Millisecond, time.Second + 1, 24 * time.Hour} {
			before, began := p.Mono(), w.Now()
			if _, err := p.Wait(events[:], d); err != nil {
				t.Fatal(err)
			}
			if took := p.Mono() - before; took < d || took > d+2 {
				t.Errorf("%d ppm: a wait for %v took %v", ppm, d, took)
			}
			real, want := float64(w.Now()-began), float64(d)/(1+float64(ppm)/1e6)
			if real < want-2 || real > want+3 {
				t.Errorf("%d ppm: %v took %v in the world, want %v", ppm, d, real, want)
			}
		}
		if off := p.Wall().Sub(simkernel.Begin) - p.Mono(); off != time.Hour {
			t.Errorf("off by %v", off)
		}
		h.SetClock(0, 0)
		if p.Mono() < 24*time.Hour {
			t.Error("a clock that was set right went back")
		}
		p.Close()
	}
}
