package transport_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// pausing counts what a sender is told of its water marks.
type pausing struct {
	listener
	paused, resumed int
	tell            func(e *transport.Endpoint, resumed bool)
}

func (p *pausing) PauseWriting(e *transport.Endpoint)  { p.paused++; p.tell(e, false) }
func (p *pausing) ResumeWriting(e *transport.Endpoint) { p.resumed++; p.tell(e, true) }

// TestFullSendBuffer: what the receiver's queue does not take is kept in order, the
// sender is told to pause once and to resume once, and Close sends the rest. A Unix
// socket is always writable unless it is connected, so that readiness says nothing:
// the loop must neither spin nor wait for ever.
func TestFullSendBuffer(t *testing.T) {
	for _, connected := range []bool{true, false} {
		t.Run(fmt.Sprintf("connected=%v", connected), func(t *testing.T) {
			onEveryBackend(t, func(t *testing.T, l *loop.Loop) { fullSendBuffer(t, l, connected) })
		})
	}
}

func fullSendBuffer(t *testing.T, l *loop.Loop, connected bool) {
	const datagrams, size = 300, 1000
	path := filepath.Join(t.TempDir(), "s")
	slow, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	o := transport.DatagramOptions{Network: "unixgram"}
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
	p := &pausing{}
	p.made = func(e *transport.Endpoint) {
		e.SetWriteLimits(64<<10, 16<<10)
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
			t.Errorf("paused with %d bytes", n)
		}
		before := l.Stats().Turns
		l.CallLater(4*restTime, func() { // nobody reads meanwhile
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

// restTime is how long an endpoint that cannot send looks away.
const restTime = 5e6

func TestAbortDropsDatagrams(t *testing.T) {
	onEveryBackend(t, func(t *testing.T, l *loop.Loop) {
		path := filepath.Join(t.TempDir(), "s")
		full, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		e := endpoint(t, l, &listener{
			made: func(e *transport.Endpoint) {
				for e.Info().Unsent == 0 {
					e.Send([]byte("x"))
				}
				e.Close()
				if e.Info().Local == nil {
					t.Error("Close did not wait for what is to be sent")
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
			t.Errorf("%d bytes are kept", n)
		}
	})
}

func TestBadDatagramOptions(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var addrError *net.AddrError
	var unknown net.UnknownNetworkError
	tests := []struct {
		name string
		o    transport.DatagramOptions
		is   error
		as   any
	}{
		{"network", transport.DatagramOptions{Network: "udp5"}, nil, &unknown},
		{"streams", transport.DatagramOptions{Network: "tcp"}, nil, &unknown},
		{"name", transport.DatagramOptions{Local: "localhost:0"}, nil, &addrError},
		{"remote name", transport.DatagramOptions{Remote: "localhost:1"}, nil, &addrError},
		{"no port", transport.DatagramOptions{Local: "127.0.0.1"}, nil, &addrError},
		{"family", transport.DatagramOptions{Network: "udp4", Local: "[::1]:0"}, nil, &addrError},
		{"families", transport.DatagramOptions{Local: "[::1]:0", Remote: "127.0.0.1:1"}, nil, &addrError},
		{"taken", transport.DatagramOptions{Local: taken.LocalAddr().String()}, syscall.EADDRINUSE, nil},
		{"not here", transport.DatagramOptions{Local: "192.0.2.1:0"}, syscall.EADDRNOTAVAIL, nil},
		{"no such path", transport.DatagramOptions{Network: "unixgram", Remote: "/nowhere/at/all"}, syscall.ENOENT, nil},
	}
	for _, tc := range tests {
		e, err := transport.Datagram(l, &listener{}, tc.o)
		var op *net.OpError
		if e != nil || !errors.As(err, &op) {
			t.Errorf("%s: %v, %v", tc.name, e, err)
			continue
		}
		if tc.is != nil && !errors.Is(err, tc.is) || tc.as != nil && !errors.As(err, tc.as) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestBadDestinations(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	open := endpoint(t, l, &listener{}, transport.DatagramOptions{Network: "udp4"})
	bound := endpoint(t, l, &listener{}, transport.DatagramOptions{Network: "udp4", Remote: "127.0.0.1:9"})
	udp := func(s string) transport.Addr { return transport.Addr{AddrPort: netip.MustParseAddrPort(s)} }
	tests := []struct {
		name string
		send func() error
		want error
	}{
		{"nowhere", func() error { return open.Send([]byte("x")) }, syscall.EDESTADDRREQ},
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

func TestBroadcast(t *testing.T) {
	onEveryBackend(t, func(t *testing.T, l *loop.Loop) {
		s := endpoint(t, l, &listener{got: func(e *transport.Endpoint, p transport.Packet) {
			if string(p.Data) != "all" {
				t.Errorf("%q", p.Data)
			}
			l.Stop()
		}}, transport.DatagramOptions{Network: "udp4", Local: ":0"})
		to := netip.AddrPortFrom(netip.MustParseAddr("127.255.255.255"), where(s).AddrPort.Port())
		c := endpoint(t, l, &listener{}, transport.DatagramOptions{Network: "udp4", Broadcast: true})
		if err := c.SendTo([]byte("all"), transport.Addr{AddrPort: to}); err != nil {
			t.Fatal(err)
		}
		run(t, l)
	})
}

// TestLostEndpointHasAnAddress that names nothing, so that a log may print it.
func TestLostEndpointHasAnAddress(t *testing.T) {
	onEveryBackend(t, func(t *testing.T, l *loop.Loop) {
		e := endpoint(t, l, &listener{
			made: func(e *transport.Endpoint) { e.Close() },
			lost: func(e *transport.Endpoint, _ error) { l.Stop() },
		}, transport.DatagramOptions{Network: "udp4", Local: "127.0.0.1:0"})
		run(t, l)
		if a, ok := e.LocalAddr().(*net.UDPAddr); !ok || a.Port != 0 || e.Info().Local == nil {
			t.Errorf("%v, %v", e.LocalAddr(), e.Info().Local)
		}
	})
}

func TestReusePort(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := endpoint(t, l, &listener{}, transport.DatagramOptions{Local: "127.0.0.1:0", ReusePort: true})
	endpoint(t, l, &listener{}, transport.DatagramOptions{Local: a.LocalAddr().String(), ReusePort: true})
	if _, err := transport.Datagram(l, &listener{}, transport.DatagramOptions{Local: a.LocalAddr().String()}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a third one that does not share: %v", err)
	}
	l.RunOnce(0)
}

func TestExistingDatagramSocket(t *testing.T) {
	onEveryBackend(t, func(t *testing.T, l *loop.Loop) {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		e := endpoint(t, l, &listener{got: func(e *transport.Endpoint, p transport.Packet) {
			if p.From != where(e) || string(p.Data) != "me" {
				t.Errorf("%q from %v", p.Data, p.From)
			}
			l.Stop()
		}}, transport.DatagramOptions{Sock: c})
		c.Close() // the endpoint has its own
		if err := e.SendTo([]byte("me"), where(e)); err != nil {
			t.Fatal(err)
		}
		run(t, l)
		stream, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		if _, err := transport.Datagram(l, &listener{}, transport.DatagramOptions{Sock: stream.(*net.TCPListener)}); !errors.Is(err, syscall.EPROTOTYPE) {
			t.Errorf("a stream: %v", err)
		}
	})
}

// TestEndpointIsLostOnce ends it in every way there is.
func TestEndpointIsLostOnce(t *testing.T) {
	ways := map[string]func(e *transport.Endpoint){
		"close":  func(e *transport.Endpoint) { e.Close(); e.Close(); e.Abort() },
		"abort":  func(e *transport.Endpoint) { e.Abort(); e.Close() },
		"panic":  func(e *transport.Endpoint) { panic("on purpose") },
		"closed": nil, // the loop
	}
	for name, way := range ways {
		for _, moment := range []string{"made", "received"} {
			t.Run(name+" "+moment, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "s")
				l, err := loop.New(loop.Options{OnPanic: func(*loop.PanicError) error { return nil }})
				if err != nil {
					t.Fatal(err)
				}
				var calls []string
				act := func(e *transport.Endpoint, when string) {
					calls = append(calls, when)
					if when == moment {
						l.CallSoon(func() { l.CallSoon(l.Stop) })
						if way != nil {
							way(e)
						}
					}
				}
				p := &listener{
					made: func(e *transport.Endpoint) {
						e.SendTo([]byte("x"), transport.Addr{Path: path})
						act(e, "made")
					},
					got: func(e *transport.Endpoint, _ transport.Packet) { act(e, "received") },
					lost: func(_ *transport.Endpoint, err error) {
						calls = append(calls, "lost")
						if (err == nil) != (name == "close" || name == "abort") {
							t.Errorf("lost with %v", err)
						}
					},
				}
				endpoint(t, l, p, transport.DatagramOptions{Network: "unixgram", Local: path})
				run(t, l)
				if over := calls[len(calls)-1] == "lost"; over != (way != nil) {
					t.Errorf("calls %v before the loop was closed", calls)
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				if len(calls) < 2 || calls[0] != "made" || calls[len(calls)-1] != "lost" {
					t.Errorf("calls %v", calls)
				}
				lost := 0
				for _, c := range calls {
					if c == "lost" {
						lost++
					}
				}
				if lost != 1 {
					t.Errorf("lost %d times", lost)
				}
				if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the path is left: %v", err)
				}
			})
		}
	}
}
