package stream

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// PacketConn sends and receives datagrams over UDP or a Unix socket. It implements
// net.PacketConn; one made by DialPacket can be used as a net.Conn, too. It treats
// tasks, other goroutines, cancellation and concurrent calls as a Conn does.
type PacketConn struct {
	socket    socket
	nursery   *spindle.Nursery
	network   string
	family    kernel.Family
	addr      kernel.Addr // local address
	peer      kernel.Addr // zero if not connected
	connected bool
	closed    atomic.Bool // Close was called

	// Loop goroutine only.
	reads  direction
	writes direction
	file   sock.File // path to remove on close
}

var (
	_ net.PacketConn = (*PacketConn)(nil)
	_ net.Conn       = (*PacketConn)(nil)
)

// ListenPacket receives datagrams at an address of network "udp", "udp4", "udp6" or
// "unixgram", as net.ListenPacket does. The context comes from a task, and the
// PacketConn belongs to that task's run.
func ListenPacket(ctx context.Context, network, address string) (*PacketConn, error) {
	return openPacket(ctx, "listen", network, address, "")
}

// DialPacket returns a PacketConn that exchanges datagrams with one address, through
// Read and Write. If no socket receives there, the next call fails with
// ECONNREFUSED.
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
	return runInTask(spindle.LoopOf(ctx), spindle.RootNursery(ctx), op, open)
}

func newPacket(ctx context.Context, network, local, remote string) (*PacketConn, error) {
	b, err := bindPacket(ctx, network, local, remote)
	if err != nil {
		return nil, err
	}
	registry := loopStateOf(spindle.LoopOf(ctx)).registry
	fd, err := registry.Datagram(b)
	if fallback, ok := b.WithoutIPv6(network, local); ok && (err == syscall.EAFNOSUPPORT || err == syscall.EADDRNOTAVAIL) {
		b = fallback
		fd, err = registry.Datagram(b)
	}
	if err != nil {
		return nil, err
	}
	c := &PacketConn{nursery: spindle.RootNursery(ctx), network: network, family: b.Family,
		peer: b.Remote, connected: b.Remote.Family() != 0}
	c.file = sock.Claim(registry.K, b.Local)
	c.addr, _ = registry.K.LocalAddr(fd)
	if err := c.socket.Init(registry, fd, sock.Socket, (*packetOwner)(c)); err != nil {
		c.file.Remove(registry.K)
		return nil, err
	}
	c.socket.PauseReading()
	return c, nil
}

// bindPacket returns the addresses to bind and connect to. It looks up host names.
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
	b, err := sock.ParseDatagram(network, local, remote)
	b.Broadcast = b.Family != kernel.Unix // as package net does
	return b, err
}

func (c *PacketConn) loop() *loop.Loop { return c.socket.Registry().L }

// here returns the context of the calling task, or nil for another goroutine.
func (c *PacketConn) here() context.Context { return coro.Here(c.loop()) }

// packetOwner implements sock's callbacks without adding methods to PacketConn.
type packetOwner PacketConn

// Ready wakes the waiting tasks. An error that an earlier datagram caused is
// returned by whichever call is next.
func (o *packetOwner) Ready(r loop.Ready) {
	c := (*PacketConn)(o)
	c.socket.Note(r)
	if c.socket.Readable() {
		c.reads.wake(nil)
	}
	if c.socket.Writable() {
		c.writes.wake(nil)
	}
}

// SocketOrphaned closes the PacketConn when the loop closes.
func (o *packetOwner) SocketOrphaned() { (*PacketConn)(o).closeOnLoop() }

// Socket returns the socket.
func (o *packetOwner) Socket() *sock.Conn { return &o.socket.Conn }

// Close closes the PacketConn. Pending calls fail with net.ErrClosed. Close removes
// the path of a Unix socket. It does not wait.
func (c *PacketConn) Close() error {
	if c.closed.Swap(true) {
		return c.netError("close", kernel.Addr{}, net.ErrClosed)
	}
	runOnLoop(c.loop(), c.closeOnLoop) // a closed loop has closed it
	return nil
}

func (c *PacketConn) closeOnLoop() {
	c.closed.Store(true)
	c.file.Remove(c.socket.Registry().K)
	c.socket.Close()
	c.reads.close()
	c.writes.close()
}

// LocalAddr returns the local address.
func (c *PacketConn) LocalAddr() net.Addr { return sock.NetAddr(c.network, c.addr) }

// RemoteAddr returns the peer's address, or nil if the PacketConn is not connected.
func (c *PacketConn) RemoteAddr() net.Addr {
	if !c.connected {
		return nil
	}
	return sock.NetAddr(c.network, c.peer)
}

// SetDeadline sets the read and write deadlines.
func (c *PacketConn) SetDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.reads, &c.writes)
}

// SetReadDeadline sets the time after which reads fail with os.ErrDeadlineExceeded.
// The zero Time means no deadline. It does not wait.
func (c *PacketConn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, &c.reads) }

// SetWriteDeadline sets the deadline for writes, as SetReadDeadline does for reads.
func (c *PacketConn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, &c.writes) }

func (c *PacketConn) setDeadlines(t time.Time, directions ...*direction) error {
	if c.closed.Load() {
		return c.netError("set", kernel.Addr{}, net.ErrClosed)
	}
	return c.netError("set", kernel.Addr{}, runOnLoop(c.loop(), func() {
		if c.socket.Closed() {
			return
		}
		for _, d := range directions {
			d.setDeadline(c.loop(), t)
		}
	}))
}

// SetReadBuffer sets the size of the system's receive buffer. Datagrams that arrive
// when it is full are lost.
func (c *PacketConn) SetReadBuffer(bytes int) error { return c.setOption(kernel.RecvBuffer, bytes) }

// SetWriteBuffer sets the size of the system's send buffer.
func (c *PacketConn) SetWriteBuffer(bytes int) error { return c.setOption(kernel.SendBuffer, bytes) }

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
		_, err = runInTask(c.loop(), c.nursery, "PacketConn option", do)
	}
	return c.netError("set", kernel.Addr{}, err)
}

// netError returns err as package net would. The address to is the datagram's
// destination, if it has one.
func (c *PacketConn) netError(op string, to kernel.Addr, err error) error {
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
