package stream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
)

// ErrTruncated says that a datagram was longer than the buffer it was read into,
// and its end is lost. Only ReadPacket tells.
var ErrTruncated = errors.New("stream: datagram longer than the buffer")

// received is a datagram that was read.
type received struct {
	n         int
	from      kernel.Addr
	truncated bool
}

// read is how every way of reading is done.
func (c *PacketConn) read(p []byte) (r received, err error) {
	if ctx := c.home.Here(); ctx != nil {
		r, err = c.readIn(ctx, p)
	} else {
		r, err = inTask(c.loop(), c.home, "PacketConn.Read of a goroutine",
			func(ctx context.Context) (received, error) { return c.readIn(ctx, p) })
	}
	if err != nil {
		err = c.fault("read", kernel.Addr{}, err)
	}
	return r, err
}

func (c *PacketConn) readIn(ctx context.Context, p []byte) (r received, err error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return r, err
	}
	if err := c.reads.enter(ctx, "PacketConn.Read"); err != nil {
		return r, err
	}
	r, err = c.tryRead(p)
	for err == syscall.EAGAIN {
		if err = c.reads.begin(ctx, c.socket.ResumeReading()); err == nil {
			err = c.reads.waker.Park(ctx, "PacketConn.Read", &c.reads)
		}
		c.socket.PauseReading()
		if err == nil {
			r, err = c.tryRead(p)
		}
	}
	c.reads.leave()
	return r, err
}

func (c *PacketConn) tryRead(p []byte) (r received, err error) {
	if c.reads.expired() {
		return r, os.ErrDeadlineExceeded
	}
	r.n, r.from, r.truncated, err = c.socket.RecvFrom(p)
	return r, err
}

// ReadFrom reads one datagram and tells who sent it. What does not fit into p is
// lost: see ReadPacket.
func (c *PacketConn) ReadFrom(p []byte) (n int, from net.Addr, err error) {
	r, err := c.read(p)
	if err != nil {
		return 0, nil, err
	}
	return r.n, c.sender(r.from), nil
}

// sender is an address as net has it: none for a Unix socket without a name.
func (c *PacketConn) sender(a kernel.Addr) net.Addr {
	if a.Family() == 0 {
		if c.family == kernel.Unix {
			return (*net.UnixAddr)(nil)
		}
		return nil
	}
	a.AddrPort = plain(a.AddrPort)
	return sock.NetAddr(c.network, a)
}

// plain is an address as its owner would write it: one of IPv4 may come in IPv6's
// form.
func plain(a netip.AddrPort) netip.AddrPort {
	if a.Addr().Is4In6() {
		return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	return a
}

// ReadFromAddrPort is ReadFrom of UDP that allocates nothing for the address. One
// of IPv4 is always in IPv4's form.
func (c *PacketConn) ReadFromAddrPort(p []byte) (n int, from netip.AddrPort, err error) {
	r, err := c.read(p)
	return r.n, plain(r.from.AddrPort), err
}

// ReadPacket is ReadFromAddrPort that fails with ErrTruncated, and len(p) bytes, if
// there was more.
func (c *PacketConn) ReadPacket(p []byte) (n int, from netip.AddrPort, err error) {
	r, err := c.read(p)
	if err == nil && r.truncated {
		err = c.fault("read", r.from, ErrTruncated)
	}
	return r.n, plain(r.from.AddrPort), err
}

// Read is ReadFrom without the address.
func (c *PacketConn) Read(p []byte) (int, error) {
	r, err := c.read(p)
	return r.n, err
}

// Write sends one datagram to the peer that DialPacket has named.
func (c *PacketConn) Write(p []byte) (int, error) { return c.send(p, kernel.Addr{}) }

// WriteTo sends one datagram, waiting for room.
func (c *PacketConn) WriteTo(p []byte, to net.Addr) (int, error) {
	var a kernel.Addr
	switch to := to.(type) {
	case *net.UDPAddr:
		if to != nil {
			a.AddrPort = to.AddrPort()
		}
	case *net.UnixAddr:
		if to != nil {
			a.Path = to.Name
		}
	case nil:
	default:
		return 0, c.fault("write", kernel.Addr{}, syscall.EINVAL)
	}
	return c.sendTo(p, a)
}

// WriteToAddrPort is WriteTo of UDP that allocates nothing for the address.
func (c *PacketConn) WriteToAddrPort(p []byte, to netip.AddrPort) (int, error) {
	return c.sendTo(p, kernel.Addr{AddrPort: to})
}

func (c *PacketConn) sendTo(p []byte, to kernel.Addr) (int, error) {
	switch {
	case c.connected:
		return 0, c.fault("write", to, net.ErrWriteToConnected)
	case to.Family() == 0:
		return 0, c.fault("write", to, syscall.EDESTADDRREQ)
	case c.family == kernel.IPv6 && to.Family() == kernel.IPv4:
		to.AddrPort = netip.AddrPortFrom(netip.AddrFrom16(to.Addr().As16()), to.Port())
	case c.family == kernel.IPv4 && to.Addr().Is4In6():
		to.AddrPort = plain(to.AddrPort)
	case c.family != to.Family():
		return 0, c.fault("write", to, &net.AddrError{Err: "address of another family", Addr: to.String()})
	}
	return c.send(p, to)
}

func (c *PacketConn) send(p []byte, to kernel.Addr) (n int, err error) {
	if ctx := c.home.Here(); ctx != nil {
		n, err = c.sendIn(ctx, p, to)
	} else {
		n, err = inTask(c.loop(), c.home, "PacketConn.Write of a goroutine",
			func(ctx context.Context) (int, error) { return c.sendIn(ctx, p, to) })
	}
	if err != nil {
		err = c.fault("write", to, err)
	}
	return n, err
}

func (c *PacketConn) sendIn(ctx context.Context, p []byte, to kernel.Addr) (n int, err error) {
	if !c.connected && to.Family() == 0 {
		return 0, syscall.EDESTADDRREQ
	}
	if err := spindle.Checkpoint(ctx); err != nil {
		return 0, err
	}
	if err := c.writes.enter(ctx, "PacketConn.Write"); err != nil {
		return 0, err
	}
	if err = c.trySend(p, to); err == syscall.EAGAIN {
		for err == syscall.EAGAIN {
			if err = c.awaitRoom(ctx); err == nil {
				err = c.trySend(p, to)
			}
		}
		if e := c.socket.UnwatchWritable(); err == nil { // nobody waits for room any more
			err = e
		}
	}
	c.writes.leave()
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *PacketConn) trySend(p []byte, to kernel.Addr) error {
	if c.writes.expired() {
		return os.ErrDeadlineExceeded
	}
	return c.socket.SendTo(p, to)
}

// fullRest is how long a sender waits where no event tells of room.
const fullRest = time.Millisecond

// awaitRoom waits until there may be room. A Unix socket that is not connected is
// writable also while the one it sends to is full: then no event tells, or one
// tells all the time, and the only way is to try again later.
func (c *PacketConn) awaitRoom(ctx context.Context) error {
	if c.family == kernel.Unix && !c.connected {
		if err := c.socket.UnwatchWritable(); err != nil {
			return err
		}
		timer := c.loop().CallLater(fullRest, func() { c.writes.wake(nil) })
		defer timer.Cancel()
	}
	if err := c.writes.begin(ctx, nil); err != nil {
		return err
	}
	return c.writes.waker.Park(ctx, "PacketConn.Write", &c.writes)
}
