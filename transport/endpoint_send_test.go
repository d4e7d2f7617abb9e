package transport_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// pauseCounter counts the calls of PauseWriting and ResumeWriting.
type pauseCounter struct {
	datagramScript
	paused, resumed int
	tell            func(e *transport.Endpoint, resumed bool)
}

func (p *pauseCounter) PauseWriting(e *transport.Endpoint) { p.paused++; p.tell(e, false) }

func (p *pauseCounter) ResumeWriting(e *transport.Endpoint) { p.resumed++; p.tell(e, true) }

// TestSendToFullBuffer: datagrams that the receiver's queue does not take are queued in
// order, PauseWriting and ResumeWriting are called once each, and Close sends the rest.
// A Unix socket is always writable unless it is connected, so readiness does not help:
// the loop must neither spin nor wait forever.
func TestSendToFullBuffer(t *testing.T) {
	for _, connected := range []bool{true, false} {
		t.Run(fmt.Sprintf("connected=%v", connected), func(t *testing.T) {
			withLoops(t, func(t *testing.T, l *loop.Loop) { sendToFullBuffer(t, l, connected) })
		})
	}
}

func sendToFullBuffer(t *testing.T, l *loop.Loop, connected bool) {
	const datagrams, size = 300, 1000
	path := filepath.Join(t.TempDir(), "s")
	slow, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	o := transport.DatagramOptions{Network: "unixgram", HighWater: 32 << 10, LowWater: 8 << 10}
	to := transport.Addr{Path: path}
	if connected {
		o.Remote, to = path, transport.Addr{}
	}
	received := make(chan error, 1)
	readAll := func() {
		buf := make([]byte, 2*size)
		for i := range datagrams {
			n, err := slow.Read(buf)
			if err != nil || n != size || buf[0] != byte(i) {
				received <- fmt.Errorf("datagram %d: %d bytes, first %d, %v", i, n, buf[0], err)
				return
			}
		}
		received <- nil
	}
	var turns uint64
	p := &pauseCounter{}
	p.made = func(e *transport.Endpoint) {
		for i := range datagrams {
			if err := e.SendTo(append([]byte{byte(i)}, make([]byte, size-1)...), to); err != nil {
				t.Fatal(err)
			}
		}
		if p.paused != 0 {
			t.Error("PauseWriting was called inside SendTo")
		}
	}
	p.tell = func(e *transport.Endpoint, resumed bool) {
		if resumed {
			e.Close()
			return
		}
		if n := e.Info().Unsent; n < 64<<10 {
			t.Errorf("paused with %d queued bytes", n)
		}
		before := l.Stats().Turns
		l.CallLater(4*retryDelay, func() { // the peer does not read meanwhile
			turns = l.Stats().Turns - before
			go readAll()
		})
	}
	p.lost = func(_ *transport.Endpoint, err error) {
		if err != nil {
			t.Error(err)
		}
		l.Stop()
	}
	endpoint(t, l, p, o)
	run(t, l)
	if err := <-received; err != nil {
		t.Error(err)
	}
	if p.paused != 1 || p.resumed != 1 {
		t.Errorf("paused %d times, resumed %d times", p.paused, p.resumed)
	}
	if turns > 100 {
		t.Errorf("the loop spins: %d turns while nothing could be sent", turns)
	}
}

// retryDelay is how long an endpoint that cannot send waits before it retries.
const retryDelay = 5e6

func TestAbortDropsDatagrams(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		path := filepath.Join(t.TempDir(), "s")
		full, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		e := endpoint(t, l, &datagramScript{
			made: func(e *transport.Endpoint) {
				for e.Info().Unsent == 0 {
					e.SendTo([]byte("x"), transport.Addr{})
				}
				e.Close()
				if e.Info().Local == nil {
					t.Error("Close did not wait for queued datagrams")
				}
				e.Abort()
			},
			lost: func(_ *transport.Endpoint, err error) {
				if err != nil {
					t.Error(err)
				}
				l.Stop()
			},
		}, transport.DatagramOptions{Network: "unixgram", Remote: path})
		run(t, l)
		if n := e.Info().Unsent; n != 0 {
			t.Errorf("%d bytes are queued", n)
		}
	})
}

func TestBadDestinations(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	open := endpoint(t, l, &datagramScript{}, transport.DatagramOptions{Network: "udp4"})
	bound := endpoint(t, l, &datagramScript{}, transport.DatagramOptions{Network: "udp4", Remote: "127.0.0.1:9"})
	udp := func(s string) transport.Addr { return transport.Addr{AddrPort: netip.MustParseAddrPort(s)} }
	tests := []struct {
		name string
		send func() error
		want error
	}{
		{"nowhere", func() error { return open.SendTo([]byte("x"), transport.Addr{}) }, syscall.EDESTADDRREQ},
		{"elsewhere", func() error { return bound.SendTo([]byte("x"), udp("127.0.0.1:10")) }, net.ErrWriteToConnected},
		{"other family", func() error { return open.SendTo([]byte("x"), udp("[::1]:9")) }, syscall.EAFNOSUPPORT},
		{"path", func() error { return open.SendTo([]byte("x"), transport.Addr{Path: "/tmp/x"}) }, syscall.EAFNOSUPPORT},
		{"too long", func() error { return open.SendTo(make([]byte, 1<<17), udp("127.0.0.1:9")) }, syscall.EMSGSIZE},
		{"broadcast", func() error { return open.SendTo([]byte("x"), udp("127.255.255.255:9")) }, syscall.EACCES},
		{"closed", func() error { open.Close(); return open.SendTo([]byte("x"), udp("127.0.0.1:9")) }, net.ErrClosed},
	}
	for _, tc := range tests {
		err := tc.send()
		var op *net.OpError
		if !errors.Is(err, tc.want) || !errors.As(err, &op) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	bound.Abort()
	l.RunOnce(0)
}

func TestDatagramBroadcast(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		s := endpoint(t, l, &datagramScript{got: func(e *transport.Endpoint, p transport.Packet) {
			if string(p.Data) != "all" {
				t.Errorf("got %q", p.Data)
			}
			l.Stop()
		}}, transport.DatagramOptions{Network: "udp4", Local: ":0"})
		to := netip.AddrPortFrom(netip.MustParseAddr("127.255.255.255"), addrOf(s).AddrPort.Port())
		c := endpoint(t, l, &datagramScript{}, transport.DatagramOptions{Network: "udp4", Broadcast: true})
		if err := c.SendTo([]byte("all"), transport.Addr{AddrPort: to}); err != nil {
			t.Fatal(err)
		}
		run(t, l)
	})
}

// TestRetryInErrorReceived: a protocol that sends a failed datagram again, from
// ErrorReceived, does not keep the loop from its other callbacks.
func TestRetryInErrorReceived(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		dir := t.TempDir()
		path := filepath.Join(dir, "s")
		full, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		missing := transport.Addr{Path: filepath.Join(dir, "missing")}
		failures := 0
		otherRan := false
		endpoint(t, l, &datagramScript{
			made: func(e *transport.Endpoint) {
				for e.Info().Unsent == 0 {
					if err := e.SendTo([]byte("x"), transport.Addr{Path: path}); err != nil {
						t.Fatal(err)
					}
				}
				e.SendTo([]byte("y"), missing)
				e.SendTo([]byte("z"), missing)
				full.Close()
			},
			failed: func(e *transport.Endpoint, err error) {
				if failures++; failures == 1 {
					l.CallSoon(func() { otherRan = true })
				}
				if failures < 1000 {
					e.SendTo([]byte("again"), missing)
					return
				}
				if !otherRan {
					t.Error("no other callback ran")
				}
				e.Abort()
			},
			lost: func(*transport.Endpoint, error) { l.Stop() },
		}, transport.DatagramOptions{Network: "unixgram"})
		run(t, l)
		if failures != 1000 {
			t.Errorf("%d failures", failures)
		}
	})
}

// TestQueuedEmptyDatagramsPauseWriting: empty datagrams take memory while they are queued,
// so they count against the water marks.
func TestQueuedEmptyDatagramsPauseWriting(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		path := filepath.Join(t.TempDir(), "s")
		full, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		p := &pauseCounter{}
		p.made = func(e *transport.Endpoint) {
			for range 10_000 {
				if err := e.SendTo(nil, transport.Addr{}); err != nil {
					t.Fatal(err)
				}
			}
			if e.Info().Unsent != 0 {
				t.Errorf("%d bytes are unsent", e.Info().Unsent)
			}
			l.CallSoon(e.Abort)
		}
		p.tell = func(*transport.Endpoint, bool) {}
		p.lost = func(*transport.Endpoint, error) { l.Stop() }
		endpoint(t, l, p, transport.DatagramOptions{Network: "unixgram", Remote: path})
		run(t, l)
		if p.paused != 1 {
			t.Errorf("PauseWriting was called %d times", p.paused)
		}
	})
}

// TestConnectionMadeComesFirst: datagrams that were queued before ConnectionMade, and fail,
// are reported after it, even if other callbacks delay it by some turns.
func TestConnectionMadeComesFirst(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		path := filepath.Join(t.TempDir(), "s")
		full, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
		if err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			l.CallSoon(func() {})
		}
		var calls []string
		e := endpoint(t, l, &datagramScript{
			made: func(*transport.Endpoint) { calls = append(calls, "made") },
			failed: func(e *transport.Endpoint, err error) {
				calls = append(calls, "failed")
				e.Close()
			},
			lost: func(*transport.Endpoint, error) { l.Stop() },
		}, transport.DatagramOptions{Network: "unixgram"})
		for e.Info().Unsent == 0 {
			if err := e.SendTo([]byte("x"), transport.Addr{Path: path}); err != nil {
				t.Fatal(err)
			}
		}
		full.Close()
		run(t, l)
		if fmt.Sprint(calls) != "[made failed]" {
			t.Errorf("calls %v", calls)
		}
	})
}
