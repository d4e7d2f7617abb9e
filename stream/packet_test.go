package stream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

// packets returns a PacketConn at a free address of a network.
func packets(t *testing.T, ctx context.Context, network string) *stream.PacketConn {
	t.Helper()
	address := "127.0.0.1:0"
	switch network {
	case "udp6":
		address = "[::1]:0"
	case "unixgram":
		address = t.TempDir() + "/s"
	}
	c, err := stream.ListenPacket(ctx, network, address)
	check(t, err)
	return c
}

var packetNetworks = []string{"udp", "udp4", "udp6", "unixgram"}

// TestPackets sends datagrams and replies, from tasks and goroutines.
func TestPackets(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		for _, network := range packetNetworks {
			a, b := packets(t, ctx, network), packets(t, ctx, network)
			talk := func() error {
				for _, text := range []string{"hello", "", "world"} {
					if n, err := a.WriteTo([]byte(text), b.LocalAddr()); n != len(text) || err != nil {
						t.Errorf("%s: %d, %v", network, n, err)
					}
					p := make([]byte, 10)
					n, from, err := b.ReadFrom(p)
					if string(p[:n]) != text || err != nil || from.String() != a.LocalAddr().String() || from.Network() != a.LocalAddr().Network() {
						t.Errorf("%s: %q from %v, %v", network, p[:n], from, err)
					}
					if _, err := b.WriteTo([]byte("back"), from); err != nil {
						t.Errorf("%s: %v", network, err)
					}
					if n, err := a.Read(p); string(p[:n]) != "back" || err != nil {
						t.Errorf("%s: %q, %v", network, p[:n], err)
					}
				}
				return nil
			}
			talk()
			spindle.Blocking(ctx, func() (int, error) { return 0, talk() })
			check(t, a.Close())
			check(t, b.Close())
			if network == "unixgram" {
				if _, err := os.Stat(a.LocalAddr().String()); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the socket's path still exists: %v", err)
				}
			}
		}
	})
}

// localAddrPort returns the local address of a UDP socket, and zero for a Unix socket.
func localAddrPort(c *stream.PacketConn) netip.AddrPort {
	a, _ := c.LocalAddr().(*net.UDPAddr)
	return a.AddrPort()
}

// TestPacketsByAddrPort covers datagrams between the IP families, and allocations.
func TestPacketsByAddrPort(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		a := packets(t, ctx, "udp")
		b, err := stream.ListenPacket(ctx, "udp", ":0") // both families
		check(t, err)
		fromA := localAddrPort(a)
		toB := netip.AddrPortFrom(fromA.Addr(), localAddrPort(b).Port())
		p, q := []byte("hello"), make([]byte, 10)
		there := func() {
			if _, err := a.WriteToAddrPort(p, toB); err != nil {
				t.Error(err)
			}
			n, from, err := b.ReadFromAddrPort(q)
			if err != nil || n != len(p) || from != fromA {
				t.Errorf("%d from %v, %v", n, from, err)
			}
			if _, err := b.WriteToAddrPort(p, from); err != nil {
				t.Error(err)
			}
			if _, from, err = a.ReadFromAddrPort(q); err != nil || from != toB {
				t.Errorf("from %v, %v", from, err)
			}
		}
		there()
		if n := testing.AllocsPerRun(50, there); n != 0 && !underRace {
			t.Errorf("%v allocations", n)
		}
	})
}

// TestPacketTruncated checks that the rest of a datagram is dropped, as in net. Only
// ReadFromAddrPort reports it.
func TestPacketTruncated(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		for _, network := range packetNetworks {
			a, b := packets(t, ctx, network), packets(t, ctx, network)
			for _, text := range []string{"truncated", "too long", "four"} {
				_, err := a.WriteTo([]byte(text), b.LocalAddr())
				check(t, err)
			}
			p := make([]byte, 4)
			n, _, err := b.ReadFrom(p)
			if string(p[:n]) != "trun" || err != nil {
				t.Errorf("%q, %v", p[:n], err)
			}
			n, _, err = b.ReadFromAddrPort(p)
			if string(p[:n]) != "too " || !errors.Is(err, io.ErrShortBuffer) {
				t.Errorf("%q, %v", p[:n], err)
			}
			n, from, err := b.ReadFromAddrPort(p)
			if string(p[:n]) != "four" || err != nil || from != localAddrPort(a) {
				t.Errorf("%q from %v, %v", p[:n], from, err)
			}
		}
	})
}

// TestPacketRefused checks that a connected socket fails if there is no receiver.
func TestPacketRefused(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		gone := packets(t, ctx, "udp")
		gone.Close()
		c, err := stream.DialPacket(ctx, "udp", gone.LocalAddr().String())
		check(t, err)
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			n.Go(func(context.Context) error {
				_, err := c.Read(make([]byte, 1))
				want(t, "waiting Read", err, syscall.ECONNREFUSED)
				return nil
			})
			waiting(t, ctx, 1, "PacketConn.Read")
			_, err := c.Write([]byte("hello?"))
			check(t, err)
		})
		_, err = c.Write([]byte("hello?"))
		check(t, err)
		_, err = c.Write([]byte("hello?"))
		want(t, "Write", err, syscall.ECONNREFUSED)
		var op *net.OpError
		if !errors.As(err, &op) || op.Addr.String() != gone.LocalAddr().String() || op.Source.String() != c.LocalAddr().String() {
			t.Errorf("%v", err)
		}
		_, err = stream.DialPacket(ctx, "unixgram", t.TempDir()+"/missing")
		want(t, "unixgram", err, syscall.ENOENT)
	})
}

// TestPacketConnected checks that a connected socket exchanges datagrams with its
// peer only.
func TestPacketConnected(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		for _, network := range []string{"udp", "udp6"} {
			server, third := packets(t, ctx, network), packets(t, ctx, network)
			c, err := stream.DialPacket(ctx, network, server.LocalAddr().String())
			check(t, err)
			if c.RemoteAddr().String() != server.LocalAddr().String() || server.RemoteAddr() != nil {
				t.Errorf("%v, %v", c.RemoteAddr(), server.RemoteAddr())
			}
			_, err = c.Write([]byte("hello"))
			check(t, err)
			p := make([]byte, 10)
			_, from, err := server.ReadFrom(p)
			check(t, err)
			_, err = third.WriteTo([]byte("not me"), from)
			check(t, err)
			_, err = server.WriteTo([]byte("me"), from)
			check(t, err)
			if n, err := c.Read(p); string(p[:n]) != "me" || err != nil {
				t.Errorf("%q, %v", p[:n], err)
			}
			_, err = c.WriteTo(p, third.LocalAddr())
			want(t, "WriteTo of a connected one", err, net.ErrWriteToConnected)
			_, err = server.Write(p)
			want(t, "Write of one that is not", err, syscall.EDESTADDRREQ)
			_, err = server.WriteTo(p, nil)
			want(t, "WriteTo without an address", err, syscall.EDESTADDRREQ)
		}
		c := packets(t, ctx, "udp4")
		_, err := c.WriteTo([]byte("x"), &net.UDPAddr{IP: net.IPv6loopback, Port: 1})
		var op *net.OpError
		if !errors.As(err, &op) {
			t.Errorf("another family: %v", err)
		}
		_, err = c.WriteTo([]byte("x"), &net.TCPAddr{IP: net.IPv6loopback, Port: 1})
		want(t, "another kind of address", err, syscall.EINVAL)
		_, err = c.WriteTo(make([]byte, 70_000), c.LocalAddr())
		want(t, "too long", err, syscall.EMSGSIZE)
	})
}

// TestPacketWaitsForBufferSpace checks that Unix sockets lose no datagram. A connected
// sender waits for an event, an unconnected one tries again.
func TestPacketWaitsForBufferSpace(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		for _, connected := range []bool{false, true} {
			b := packets(t, ctx, "unixgram")
			a := packets(t, ctx, "unixgram")
			send := func(p []byte) (int, error) { return a.WriteTo(p, b.LocalAddr()) }
			if connected {
				check(t, a.Close())
				var err error
				a, err = stream.DialPacket(ctx, "unixgram", b.LocalAddr().String())
				check(t, err)
				send = a.Write
			}
			const many = 500
			together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
				n.Go(func(ctx context.Context) error {
					for i := range many {
						if _, err := send([]byte{byte(i)}); err != nil {
							return err
						}
					}
					return nil
				})
				waiting(t, ctx, 1, "PacketConn.Write")
				quiet(t, ctx, 5)
				p := make([]byte, 10)
				for i := range many {
					if n, err := b.Read(p); n != 1 || p[0] != byte(i) || err != nil {
						t.Fatalf("%d: %d, %v", i, p[0], err)
					}
				}
			})
			check(t, a.Close())
			check(t, b.Close())
			if n := spindle.LoopOf(ctx).Stats(); n.Timers != 0 || n.FDs != 0 {
				t.Errorf("loop is not idle: %+v", n)
			}
		}
	})
}

// TestPacketCallsEnd covers deadlines, cancellation and Close.
func TestPacketCallsEnd(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		c, sink := packets(t, ctx, "unixgram"), packets(t, ctx, "unixgram")
		read := func() error { _, _, err := c.ReadFrom(make([]byte, 1)); return err }
		write := func() error {
			for {
				if _, err := c.WriteTo([]byte("x"), sink.LocalAddr()); err != nil {
					return err
				}
			}
		}
		both := func(expected error, end func(s *spindle.Scope)) {
			t.Helper()
			check(t, spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
					for range 2 {
						n.Go(func(context.Context) error { want(t, "Read", read(), expected); return nil })
						n.Go(func(context.Context) error { want(t, "Write", write(), expected); return nil })
					}
					waiting(t, ctx, 2, "PacketConn.Read")
					waiting(t, ctx, 2, "PacketConn.Write")
					end(s)
				})
				return nil
			}))
		}
		both(os.ErrDeadlineExceeded, func(*spindle.Scope) { check(t, c.SetDeadline(time.Now().Add(time.Millisecond))) })
		check(t, c.SetDeadline(time.Time{}))
		both(context.Canceled, func(s *spindle.Scope) { s.Cancel(nil) })
		both(net.ErrClosed, func(*spindle.Scope) {
			spindle.Blocking(ctx, func() (int, error) { return 0, c.Close() })
		})
		for name, call := range map[string]func() error{
			"ReadFrom": read, "WriteTo": write, "Close": c.Close,
			"SetDeadline":   func() error { return c.SetDeadline(time.Time{}) },
			"SetReadBuffer": func() error { return c.SetReadBuffer(1000) },
		} {
			want(t, name, call(), net.ErrClosed)
		}
	})
}

// TestPacketsFromGoroutines makes many calls at once, and calls while the run ends.
func TestPacketsFromGoroutines(t *testing.T) {
	var calls sync.WaitGroup
	run(t, spindle.Options{}, func(ctx context.Context) error {
		a, b := packets(t, ctx, "unixgram"), packets(t, ctx, "unixgram")
		const each = 100
		for range 3 {
			calls.Go(func() {
				for range each {
					if _, err := a.WriteTo([]byte("x"), b.LocalAddr()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 3 * each {
			if _, err := b.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
		}
		calls.Go(func() {
			_, err := b.Read(make([]byte, 1))
			want(t, "Read at the end", err, net.ErrClosed)
		})
		check(t, b.SetReadBuffer(10_000))
		waiting(t, ctx, 1, "PacketConn.Read")
		return nil
	})
	calls.Wait()
}

// TestEmptyReadOfPackets: as in net, a Read into an empty buffer returns at once and leaves
// the datagram for the next call.
func TestEmptyReadOfPackets(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		a := packets(t, ctx, "udp")
		read := func() error {
			if n, err := a.Read(nil); n != 0 || err != nil {
				t.Errorf("an empty read: %d, %v", n, err)
			}
			if _, err := a.WriteTo([]byte("x"), a.LocalAddr()); err != nil {
				t.Error(err)
			}
			if n, err := a.Read(nil); n != 0 || err != nil {
				t.Errorf("an empty read: %d, %v", n, err)
			}
			check(t, a.SetReadDeadline(time.Now().Add(time.Second)))
			if n, err := a.Read(make([]byte, 2)); n != 1 || err != nil {
				t.Errorf("the datagram: %d, %v", n, err)
			}
			return nil
		}
		read()
		spindle.Blocking(ctx, func() (int, error) { return 0, read() })
		check(t, a.Close())
		if _, err := a.Read(nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestPacketToUnspecifiedHost: as in net, an address without a host is this machine.
func TestPacketToUnspecifiedHost(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		for network, address := range map[string]string{"udp": ":0", "udp4": "127.0.0.1:0", "udp6": "[::1]:0"} {
			a, err := stream.ListenPacket(ctx, network, address)
			check(t, err)
			to := &net.UDPAddr{Port: a.LocalAddr().(*net.UDPAddr).Port}
			if _, err := a.WriteTo([]byte("x"), to); err != nil {
				t.Errorf("%s: %v", network, err)
				continue
			}
			if n, err := a.Read(make([]byte, 2)); n != 1 || err != nil {
				t.Errorf("%s: %d, %v", network, n, err)
			}
			check(t, a.Close())
		}
	})
}
