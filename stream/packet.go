package stream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// PacketConn sends and receives datagrams: of UDP, or of a Unix socket. It is a
// net.PacketConn; one that DialPacket has made is a net.Conn too. What Conn says of
// tasks, goroutines, cancellation and turns holds for it.
type PacketConn struct {
	socket    socket
	home      *spindle.Nursery
	network   string
	family    kernel.Family
	addr      kernel.Addr // of this end
	peer      kernel.Addr // if it is connected
	connected bool
	closed    atomic.Bool // Close was called

	// Loop goroutine only.
	reads  side
	writes side
	file   sock.File // to be removed
}

var (
	_ net.PacketConn = (*PacketConn)(nil)
	_ net.Conn       = (*PacketConn)(nil)
)

// ListenPacket receives datagrams at an address of network "udp", "udp4", "udp6" or
// "unixgram", as net.ListenPacket does. Ctx is a task's; the PacketConn belongs to
// its run.
func ListenPacket(ctx context.Context, network, address string) (*PacketConn, error) {
	return openPacket(ctx, "listen", network, address, "")
}

// DialPacket is a PacketConn that talks to one address only, by Read and Write, and
// learns that nobody is there: the next call then fails with ECONNREFUSED.
func DialPacket(ctx context.Context, network, address string) (*PacketConn, error) {
	return openPacket(ctx, "dial", network, "", address)
}

func openPacket(ctx context.Context, op, network, local, remote string) (*PacketConn, error) {
	open := func(ctx context.Context) (*PacketConn, error) {
		c, err := newPacket(ctx, network, local, remote)
		var canceled *spindle.Canceled
		if errors.As(err, &canceled) {
			return nil, err
		}
		return c, sock.Error(op, network, nil, nil, err)
	}
	if spindle.Current(ctx) != nil {
		return open(ctx)
	}
	return inTask(spindle.LoopOf(ctx), spindle.Background(ctx), op+" of a goroutine", open)
}

func newPacket(ctx context.Context, network, local, remote string) (*PacketConn, error) {
	b, err := bindPacket(ctx, network, local, remote)
	if err != nil {
		return nil, err
	}
	hub := stationOf(spindle.LoopOf(ctx)).hub
	fd, err := hub.Datagram(b)
	if older, ok := b.WithoutIPv6(network, local); ok && (err == syscall.EAFNOSUPPORT || err == syscall.EADDRNOTAVAIL) {
		b = older
		fd, err = hub.Datagram(b)
	}
	if err != nil {
		return nil, err
	}
	c := &PacketConn{home: spindle.Background(ctx), network: network, family: b.Family,
		peer: b.Remote, connected: b.Remote.Family() != 0}
	c.file = sock.Claim(hub.K, b.Local)
	c.addr, _ = hub.K.LocalAddr(fd)
	if err := c.socket.Init(hub, fd, sock.Socket, (*packetOwner)(c)); err != nil {
		c.file.Remove(hub.K)
		return nil, err
	}
	c.socket.PauseReading()
	return c, nil
}

// bindPacket finds out the addresses, looked up if they are names.
func bindPacket(ctx context.Context, network, local, remote string) (sock.DatagramBinding, error) {
	for _, address := range []*string{&local, &remote} {
		if *address == "" {
			continue
		}
		t, err := sock.ParseTarget(network, *address)
		if err != nil {
			return sock.DatagramBinding{}, err
		}
		if _, ok := t.Known(false); !ok {
			a, err := resolve(ctx, t)
			if err != nil {
				return sock.DatagramBinding{}, err
			}
			*address = a.String()
		}
	}
	return sock.ParseDatagram(network, local, remote)
}

func (c *PacketConn) loop() *loop.Loop { return c.socket.Registry().L }

// packetOwner is what a PacketConn is to its socket.
type packetOwner PacketConn

// SocketReady wakes who waits. An error that came from far is told by whichever
// call is next.
func (o *packetOwner) SocketReady() {
	c := (*PacketConn)(o)
	if c.socket.Readable() {
		c.reads.wake(nil)
	}
	if c.socket.Writable() {
		c.writes.wake(nil)
	}
}

// SocketOrphaned is called when the loop is closed.
func (o *packetOwner) SocketOrphaned() { (*PacketConn)(o).end() }

// Close closes it; who waits fails with net.ErrClosed. The path of a Unix socket is
// removed. It does not wait.
func (c *PacketConn) Close() error {
	if c.closed.Swap(true) {
		return c.fault("close", kernel.Addr{}, net.ErrClosed)
	}
	soon(c.loop(), c.end) // a loop that is closed has done it
	return nil
}

func (c *PacketConn) end() {
	c.closed.Store(true)
	c.file.Remove(c.socket.Registry().K)
	c.socket.Close()
	c.reads.stop()
	c.writes.stop()
}

// LocalAddr is the address of this end.
func (c *PacketConn) LocalAddr() net.Addr { return sock.NetAddr(c.network, c.addr) }

// RemoteAddr is the peer's address, nil if there is not one peer.
func (c *PacketConn) RemoteAddr() net.Addr {
	if !c.connected {
		return nil
	}
	return sock.NetAddr(c.network, c.peer)
}

// LocalAddrPort is LocalAddr of UDP.
func (c *PacketConn) LocalAddrPort() netip.AddrPort { return c.addr.AddrPort }

// SetDeadline sets both deadlines.
func (c *PacketConn) SetDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.reads, &c.writes)
}

// SetReadDeadline has reading fail with os.ErrDeadlineExceeded once t has come. The
// zero Time means never. It does not wait.
func (c *PacketConn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, &c.reads) }

// SetWriteDeadline is SetReadDeadline for writing.
func (c *PacketConn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, &c.writes) }

func (c *PacketConn) setDeadlines(t time.Time, sides ...*side) error {
	if c.closed.Load() {
		return c.fault("set", kernel.Addr{}, net.ErrClosed)
	}
	return c.fault("set", kernel.Addr{}, soon(c.loop(), func() {
		if c.socket.Closed() {
			return
		}
		for _, s := range sides {
			s.setDeadline(c.loop(), t)
		}
	}))
}

// SetReadBuffer sets how much the system keeps that was not read yet: what comes
// when it is full is lost.
func (c *PacketConn) SetReadBuffer(bytes int) error { return c.setOption(kernel.RecvBuffer, bytes) }

// SetWriteBuffer sets how much the system keeps that was not sent yet.
func (c *PacketConn) SetWriteBuffer(bytes int) error { return c.setOption(kernel.SendBuffer, bytes) }

// SetBroadcast permits sending to broadcast addresses.
func (c *PacketConn) SetBroadcast(on bool) error { return c.setOption(kernel.Broadcast, oneIf(on)) }

func (c *PacketConn) setOption(o kernel.Option, value int) error {
	do := func(context.Context) (struct{}, error) {
		if c.socket.Closed() {
			return struct{}{}, net.ErrClosed
		}
		return struct{}{}, c.socket.Registry().K.SetOption(c.socket.FD(), o, value)
	}
	var err error
	if c.loop().Owns() {
		_, err = do(nil)
	} else {
		_, err = inTask(c.loop(), c.home, "PacketConn option of a goroutine", do)
	}
	return c.fault("set", kernel.Addr{}, err)
}

// fault is a failure as package net would return it; to is whom it was to be sent.
func (c *PacketConn) fault(op string, to kernel.Addr, err error) error {
	if err == nil {
		return nil
	}
	var canceled *spindle.Canceled
	if errors.As(err, &canceled) {
		return err
	}
	remote := c.RemoteAddr()
	if to.Family() != 0 {
		remote = sock.NetAddr(c.network, to)
	}
	return sock.Error(op, c.network, c.LocalAddr(), remote, err)
}
