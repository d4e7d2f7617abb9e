package transport_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// withLoops runs a test with a loop on each poller.
func withLoops(t *testing.T, test func(t *testing.T, l *loop.Loop)) {
	for _, backend := range short.Backends() {
		t.Run(backend, func(t *testing.T) {
			l, err := loop.New(loop.Options{Backend: backend})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}()
			test(t, l)
		})
	}
}

// run runs the loop until it is stopped.
func run(t *testing.T, l *loop.Loop) {
	t.Helper()
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// datagramScript is a DatagramProtocol made of functions, which may be nil.
type datagramScript struct {
	made   func(*transport.Endpoint)
	got    func(*transport.Endpoint, transport.Packet)
	failed func(*transport.Endpoint, error)
	lost   func(*transport.Endpoint, error)
}

func (p *datagramScript) ConnectionMade(e *transport.Endpoint) {
	if p.made != nil {
		p.made(e)
	}
}
func (p *datagramScript) DatagramReceived(e *transport.Endpoint, d transport.Packet) {
	if p.got != nil {
		p.got(e, d)
	}
}
func (p *datagramScript) ErrorReceived(e *transport.Endpoint, err error) {
	if p.failed != nil {
		p.failed(e, err)
	}
}
func (p *datagramScript) ConnectionLost(e *transport.Endpoint, err error) {
	if p.lost != nil {
		p.lost(e, err)
	}
}

func endpoint(t *testing.T, l *loop.Loop, p transport.DatagramProtocol, o transport.DatagramOptions) *transport.Endpoint {
	t.Helper()
	e, err := transport.Datagram(l, p, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func addrOf(e *transport.Endpoint) transport.Addr {
	switch a := e.Info().Local.(type) {
	case *net.UDPAddr:
		return transport.Addr{AddrPort: netip.AddrPortFrom(a.AddrPort().Addr().Unmap(), a.AddrPort().Port())}
	case *net.UnixAddr:
		return transport.Addr{Path: a.Name}
	}
	return transport.Addr{}
}

// TestDatagramEcho: datagrams are echoed on every network, by connected and unconnected
// endpoints.
func TestDatagramEcho(t *testing.T) {
	dir := t.TempDir()
	tests := []struct{ network, server, client string }{
		{"udp4", "127.0.0.1:0", ""},
		{"udp6", "[::1]:0", ""},
		{"udp", "127.0.0.1:0", "127.0.0.1:0"},
		{"unixgram", filepath.Join(dir, "server"), filepath.Join(dir, "client")},
		{"unixgram", "@spindle-s" + strconv.Itoa(os.Getpid()), "@spindle-c" + strconv.Itoa(os.Getpid())},
	}
	for _, tc := range tests {
		for _, connected := range []bool{true, false} {
			t.Run(fmt.Sprint(tc.network, tc.server, connected), func(t *testing.T) {
				withLoops(t, func(t *testing.T, l *loop.Loop) {
					datagramEcho(t, l, tc.network, tc.server, tc.client, connected)
				})
			})
		}
	}
}

func datagramEcho(t *testing.T, l *loop.Loop, network, server, client string, connected bool) {
	s := endpoint(t, l, &datagramScript{got: func(e *transport.Endpoint, p transport.Packet) {
		if err := e.SendTo(bytes.ToUpper(p.Data), p.From); err != nil {
			t.Error(err)
		}
	}}, transport.DatagramOptions{Network: network, Local: server})
	o := transport.DatagramOptions{Network: network, Local: client}
	to := addrOf(s)
	if connected {
		o.Remote = s.Info().Local.String()
		to = transport.Addr{}
	}
	var got []string
	c := endpoint(t, l, &datagramScript{
		made: func(e *transport.Endpoint) {
			for _, word := range []string{"one", "", "three"} {
				if err := e.SendTo([]byte(word), to); err != nil {
					t.Error(err)
				}
			}
		},
		got: func(e *transport.Endpoint, p transport.Packet) {
			if p.From != addrOf(s) {
				t.Errorf("from %v, want %v", p.From, addrOf(s))
			}
			if p.Truncated {
				t.Error("truncated")
			}
			if got = append(got, string(p.Data)); len(got) == 3 {
				e.Close()
				s.Close()
			}
		},
		lost: func(_ *transport.Endpoint, err error) {
			if err != nil {
				t.Error(err)
			}
			l.Stop()
		},
	}, o)
	if remote := c.Info().Remote; connected != (remote != nil) {
		t.Errorf("connected to %v", remote)
	}
	run(t, l)
	if fmt.Sprint(got) != "[ONE  THREE]" {
		t.Errorf("got %q", got)
	}
	for _, path := range []string{server, client} {
		if _, err := os.Lstat(path); network == "unixgram" && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q was not removed: %v", path, err)
		}
	}
}

// TestDatagramDualStack: an endpoint of both families replies to IPv4 and IPv6.
func TestDatagramDualStack(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		s := endpoint(t, l, &datagramScript{got: func(e *transport.Endpoint, p transport.Packet) {
			if p.From.AddrPort.Addr().Is4In6() {
				t.Errorf("from %v", p.From)
			}
			if err := e.SendTo(p.Data, p.From); err != nil {
				t.Error(err)
			}
		}}, transport.DatagramOptions{Local: ":0"})
		port := strconv.Itoa(int(addrOf(s).AddrPort.Port()))
		left := 2
		for _, host := range []string{"127.0.0.1", "::1"} {
			endpoint(t, l, &datagramScript{
				made: func(e *transport.Endpoint) { e.SendTo([]byte(host), transport.Addr{}) },
				got: func(e *transport.Endpoint, p transport.Packet) {
					if string(p.Data) != host || p.From.AddrPort.Addr().String() != host {
						t.Errorf("%q from %v, want %s", p.Data, p.From, host)
					}
					e.Close()
				},
				lost: func(*transport.Endpoint, error) {
					if left--; left == 0 {
						l.Stop()
					}
				},
			}, transport.DatagramOptions{Remote: net.JoinHostPort(host, port)})
		}
		run(t, l)
	})
}

// TestDatagramRefused: ErrorReceived gets ECONNREFUSED when no socket receives at the
// remote address, and the next datagram is sent.
func TestDatagramRefused(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		unused, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := unused.LocalAddr().String()
		unused.Close()
		e := endpoint(t, l, &datagramScript{
			made: func(e *transport.Endpoint) { e.SendTo([]byte("hello"), transport.Addr{}) },
			failed: func(e *transport.Endpoint, err error) {
				var op *net.OpError
				if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &op) || op.Addr.String() != addr {
					t.Errorf("ErrorReceived got %v", err)
				}
				e.Close()
			},
			lost: func(_ *transport.Endpoint, err error) {
				if err != nil {
					t.Error(err)
				}
				l.Stop()
			},
		}, transport.DatagramOptions{Network: "udp4", Remote: addr})
		run(t, l)
		if e.Info().Out == 0 {
			t.Error("no datagram was sent")
		}
	})
}

// TestDatagramAfterRefusalIsSent: the system reports the refusal of an earlier datagram
// instead of sending the next one. The endpoint reports it and sends again.
func TestDatagramAfterRefusalIsSent(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		peer, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := peer.LocalAddr().String()
		peer.Close()
		refused := 0
		endpoint(t, l, &datagramScript{
			made: func(e *transport.Endpoint) {
				e.SendTo([]byte("lost"), transport.Addr{}) // on loopback the refusal arrives at once
				if peer, err = net.ListenPacket("udp4", addr); err != nil {
					t.Fatal(err)
				}
				if err := e.SendTo([]byte("sent"), transport.Addr{}); err != nil {
					t.Error(err)
				}
				if refused > 0 {
					t.Error("ErrorReceived was called inside Send")
				}
			},
			failed: func(e *transport.Endpoint, err error) {
				refused++
				e.Close()
			},
			lost: func(*transport.Endpoint, error) { l.Stop() },
		}, transport.DatagramOptions{Network: "udp4", Remote: addr})
		run(t, l)
		defer peer.Close()
		buf := make([]byte, 16)
		n, _, err := peer.ReadFrom(buf)
		if err != nil || string(buf[:n]) != "sent" || refused != 1 {
			t.Errorf("got %q, %v, after %d refusals", buf[:n], err, refused)
		}
	})
}

func TestDatagramTruncated(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		path := filepath.Join(t.TempDir(), "s")
		var sizes []int
		endpoint(t, l, &datagramScript{
			got: func(e *transport.Endpoint, p transport.Packet) {
				sizes = append(sizes, len(p.Data))
				if p.Truncated != (len(sizes) == 1) {
					t.Errorf("datagram %d of %d bytes: truncated %v", len(sizes), len(p.Data), p.Truncated)
				}
				if p.From != (transport.Addr{}) {
					t.Errorf("from %v", p.From)
				}
				if len(sizes) == 2 {
					e.Close()
				}
			},
			lost: func(*transport.Endpoint, error) { l.Stop() },
		}, transport.DatagramOptions{Network: "unixgram", Local: path})
		c := endpoint(t, l, &datagramScript{}, transport.DatagramOptions{Network: "unixgram", Remote: path})
		for _, n := range []int{100 << 10, 64 << 10} {
			if err := c.SendTo(make([]byte, n), transport.Addr{}); err != nil {
				t.Fatal(err)
			}
		}
		run(t, l)
		c.Abort()
		l.RunOnce(0)
		for _, n := range sizes {
			if n != 64<<10 {
				t.Errorf("sizes %v", sizes)
			}
		}
	})
}

// TestDatagramReceiveDoesNotAllocate covers the endpoint; package kernel has a test of
// its own for the system calls.
func TestDatagramReceiveDoesNotAllocate(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	received := 0
	s := endpoint(t, l, &datagramScript{got: func(e *transport.Endpoint, p transport.Packet) {
		received++
		e.SendTo(p.Data, p.From)
	}}, transport.DatagramOptions{Local: "127.0.0.1:0"})
	if _, err := l.RunOnce(0); err != nil {
		t.Fatal(err)
	}
	self := addrOf(s)
	if err := s.SendTo([]byte("round"), self); err != nil { // to itself, for ever
		t.Fatal(err)
	}
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := l.RunOnce(-1); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 || received < 100 {
		t.Errorf("%v allocations in a turn, %d datagrams", allocs, received)
	}
	s.Abort()
	l.RunOnce(0)
}
