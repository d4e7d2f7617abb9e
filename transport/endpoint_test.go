package transport_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

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
		e, err := transport.Datagram(l, &datagramScript{}, tc.o)
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

// TestLocalAddrOfLostEndpoint: the address is empty and not nil, so that a log can
// print it.
func TestLocalAddrOfLostEndpoint(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		e := endpoint(t, l, &datagramScript{
			made: func(e *transport.Endpoint) { e.Close() },
			lost: func(e *transport.Endpoint, _ error) { l.Stop() },
		}, transport.DatagramOptions{Network: "udp4", Local: "127.0.0.1:0"})
		run(t, l)
		if a, ok := e.Info().Local.(*net.UDPAddr); !ok || a.Port != 0 {
			t.Errorf("%v", e.Info().Local)
		}
	})
}

func TestEndpointReusePort(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := endpoint(t, l, &datagramScript{}, transport.DatagramOptions{Local: "127.0.0.1:0", ReusePort: true})
	endpoint(t, l, &datagramScript{}, transport.DatagramOptions{Local: a.Info().Local.String(), ReusePort: true})
	if _, err := transport.Datagram(l, &datagramScript{}, transport.DatagramOptions{Local: a.Info().Local.String()}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a third endpoint without ReusePort: %v", err)
	}
	l.RunOnce(0)
}

func TestDatagramSock(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		e := endpoint(t, l, &datagramScript{got: func(e *transport.Endpoint, p transport.Packet) {
			if p.From != addrOf(e) || string(p.Data) != "me" {
				t.Errorf("%q from %v", p.Data, p.From)
			}
			l.Stop()
		}}, transport.DatagramOptions{Sock: c})
		c.Close() // the endpoint has its own descriptor
		if err := e.SendTo([]byte("me"), addrOf(e)); err != nil {
			t.Fatal(err)
		}
		run(t, l)
		stream, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		if _, err := transport.Datagram(l, &datagramScript{}, transport.DatagramOptions{Sock: stream.(*net.TCPListener)}); !errors.Is(err, syscall.EPROTOTYPE) {
			t.Errorf("a stream socket: %v", err)
		}
	})
}

// TestEndpointLostExactlyOnce: ConnectionLost is called once however the endpoint ends.
func TestEndpointLostExactlyOnce(t *testing.T) {
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
				p := &datagramScript{
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
					t.Errorf("the path was not removed: %v", err)
				}
			})
		}
	}
}

// optionSpy records the socket options that are set.
type optionSpy struct {
	kernel.Sockets
	set map[kernel.Option]int
	err error // of SetOption, if not nil
}

func (s *optionSpy) SetOption(fd int, o kernel.Option, value int) error {
	s.set[o] = value
	if s.err != nil {
		return s.err
	}
	return s.Sockets.SetOption(fd, o, value)
}

// TestEndpointBuffers: the sizes are set on the socket. If the system refuses one, there is no
// endpoint.
func TestEndpointBuffers(t *testing.T) {
	k, err := kernel.Open("auto")
	if err != nil {
		t.Fatal(err)
	}
	spy := &optionSpy{Sockets: k.Sockets, set: map[kernel.Option]int{}}
	k.Sockets = spy
	l, err := loop.New(loop.Internal().WithKernel(loop.Options{}, k))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := transport.DatagramOptions{Network: "udp", Local: "127.0.0.1:0", ReadBuffer: 100_000, WriteBuffer: 50_000}
	e := endpoint(t, l, &datagramScript{}, o)
	if spy.set[kernel.RecvBuffer] != 100_000 || spy.set[kernel.SendBuffer] != 50_000 {
		t.Errorf("options %v", spy.set)
	}
	o.Local = e.Info().Local.String()
	e.Abort()
	spy.err = syscall.EINVAL
	if _, err := transport.Datagram(l, &datagramScript{}, o); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a size that the system refuses: %v", err)
	}
	spy.err = nil
	endpoint(t, l, &datagramScript{}, o).Abort() // the address is free
}

// TestDatagramOptionsThatCannotBe: water marks that are not in order, and a socket with options that
// only a new one can have.
func TestDatagramOptionsThatCannotBe(t *testing.T) {
	near, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	existing := near.(*net.UDPConn)
	for want, o := range map[string]transport.DatagramOptions{
		"0 <= LowWater < HighWater": {HighWater: 10, LowWater: 10},
		"LowWater < HighWater":      {HighWater: -1},
		"needs 0 <= LowWater":       {LowWater: 10},
		"a Sock and an address":     {Sock: existing, Broadcast: true},
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, want) {
					t.Errorf("%+v: %s", o, text)
				}
			}()
			transport.Datagram(l, &datagramScript{}, o)
		}()
	}
	endpoint(t, l, &datagramScript{}, transport.DatagramOptions{Sock: existing, HighWater: 10, ReadBuffer: 1 << 16}).Abort()
}
