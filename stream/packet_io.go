package stream

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
)

// datagram describes a received datagram.
type datagram struct {
	n         int
	from      kernel.Addr
	truncated bool
}

// read receives one datagram, for all exported read methods.
func (c *PacketConn) read(p []byte) (r datagram, err error) {
	if ctx := c.here(); ctx != nil {
		r, err = c.readTask(ctx, p)
	} else {
		r, err = runInTask(c.loop(), c.nursery, "PacketConn.Read",
			func(ctx context.Context) (datagram, error) { return c.readTask(ctx, p) })
	}
	if err != nil {
		err = c.netError("read", kernel.Addr{}, err)
	}
	return r, err
}

func (c *PacketConn) readTask(ctx context.Context, p []byte) (r datagram, err error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return r, err
	}
	if err := c.reads.acquire(ctx, "PacketConn.Read"); err != nil {
		return r, err
	}
	r, err = c.tryRead(p)
	for err == syscall.EAGAIN {
		if err = c.reads.waitReadable(ctx, &c.socket, "PacketConn.Read"); err == nil {
			r, err = c.tryRead(p)
		}
	}
	c.reads.release()
	return r, err
}

func (c *PacketConn) tryRead(p []byte) (r datagram, err error) {
	if c.reads.expired() {
		return r, os.ErrDeadlineExceeded
	}
	r.n, r.from, r.truncated, err = c.socket.RecvFrom(p)
	return r, err
}

// ReadFrom reads one datagram and returns the sender's address. Bytes that do not
// fit into p are lost; ReadFromAddrPort reports that.
func (c *PacketConn) ReadFrom(p []byte) (n int, from net.Addr, err error) {
	r, err := c.read(p)
	if err != nil {
		return 0, nil, err
	}
	return r.n, c.sender(r.from), nil
}

// sender returns the address as net would: a nil *net.UnixAddr for an unnamed Unix
// socket.
func (c *PacketConn) sender(a kernel.Addr) net.Addr {
	if a.Family() == 0 {
		if c.family == kernel.Unix {
			return (*net.UnixAddr)(nil)
		}
		return nil
	}
	a.AddrPort = unmap(a.AddrPort)
	return sock.NetAddr(c.network, a)
}

// unmap returns an IPv4-mapped IPv6 address in IPv4 form, and any other address as
// it is.
func unmap(a netip.AddrPort) netip.AddrPort {
	if a.Addr().Is4In6() {
		return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	return a
}

// ReadFromAddrPort is ReadFrom for UDP without an allocation for the address. It
// returns IPv4 addresses in IPv4 form. Unlike ReadFrom, it fails with an error
// that wraps io.ErrShortBuffer if the datagram is longer than p. P then has the first bytes, and the
// rest is lost.
func (c *PacketConn) ReadFromAddrPort(p []byte) (n int, from netip.AddrPort, err error) {
	r, err := c.read(p)
	if err == nil && r.truncated {
		err = c.netError("read", r.from, io.ErrShortBuffer)
	}
	return r.n, unmap(r.from.AddrPort), err
}

// Read reads one datagram and drops the sender's address. As in net, an empty Read
// returns at once and leaves the datagram for the next call.
func (c *PacketConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		if c.closed.Load() {
			return 0, c.netError("read", kernel.Addr{}, net.ErrClosed)
		}
		return 0, nil
	}
	r, err := c.read(p)
	return r.n, err
}

// Write sends one datagram to the peer given to DialPacket.
func (c *PacketConn) Write(p []byte) (int, error) { return c.send(p, kernel.Addr{}) }

// WriteTo sends one datagram, waiting while the socket's buffer is full. As in net, a
// *net.UDPAddr without an IP stands for this machine.
func (c *PacketConn) WriteTo(p []byte, to net.Addr) (int, error) {
	var a kernel.Addr
	switch to := to.(type) {
	case *net.UDPAddr:
		if to != nil {
			a.AddrPort = to.AddrPort()
			if len(to.IP) == 0 {
				a.AddrPort = netip.AddrPortFrom(c.thisMachine(), uint16(to.Port))
			}
		}
	case *net.UnixAddr:
		if to != nil {
			a.Path = to.Name
		}
	case nil:
	default:
		return 0, c.netError("write", kernel.Addr{}, syscall.EINVAL)
	}
	return c.sendTo(p, a)
}

// thisMachine returns the address that stands for this machine in a destination.
func (c *PacketConn) thisMachine() netip.Addr {
	if c.family == kernel.IPv4 {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// WriteToAddrPort is WriteTo for UDP without an allocation for the address.
func (c *PacketConn) WriteToAddrPort(p []byte, to netip.AddrPort) (int, error) {
	return c.sendTo(p, kernel.Addr{AddrPort: to})
}

func (c *PacketConn) sendTo(p []byte, to kernel.Addr) (int, error) {
	switch {
	case c.connected:
		return 0, c.netError("write", to, net.ErrWriteToConnected)
	case to.Family() == 0:
		return 0, c.netError("write", to, syscall.EDESTADDRREQ)
	case c.family == kernel.IPv6 && to.Family() == kernel.IPv4:
		to.AddrPort = netip.AddrPortFrom(netip.AddrFrom16(to.Addr().As16()), to.Port())
	case c.family == kernel.IPv4 && to.Addr().Is4In6():
		to.AddrPort = unmap(to.AddrPort)
	case c.family != to.Family():
		return 0, c.netError("write", to, &net.AddrError{Err: "address of another family", Addr: to.String()})
	}
	return c.send(p, to)
}

func (c *PacketConn) send(p []byte, to kernel.Addr) (n int, err error) {
	if ctx := c.here(); ctx != nil {
		n, err = c.sendTask(ctx, p, to)
	} else {
		n, err = runInTask(c.loop(), c.nursery, "PacketConn.Write",
			func(ctx context.Context) (int, error) { return c.sendTask(ctx, p, to) })
	}
	if err != nil {
		err = c.netError("write", to, err)
	}
	return n, err
}

func (c *PacketConn) sendTask(ctx context.Context, p []byte, to kernel.Addr) (n int, err error) {
	if !c.connected && to.Family() == 0 {
		return 0, syscall.EDESTADDRREQ
	}
	if err := spindle.Checkpoint(ctx); err != nil {
		return 0, err
	}
	if err := c.writes.acquire(ctx, "PacketConn.Write"); err != nil {
		return 0, err
	}
	if err = c.trySend(p, to); err == syscall.EAGAIN {
		for err == syscall.EAGAIN {
			if err = c.waitWritable(ctx); err == nil {
				err = c.trySend(p, to)
			}
		}
		if e := c.socket.UnwatchWritable(); err == nil { // no task waits for writability any more
			err = e
		}
	}
	c.writes.release()
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

// unixRetryInterval is the pause between attempts where no event reports
// writability.
const unixRetryInterval = time.Millisecond

// waitWritable waits until a send may succeed. An unconnected Unix socket counts as
// writable even while the receiver's buffer is full. Its events are missing or
// permanent, so the only way is to try again later.
func (c *PacketConn) waitWritable(ctx context.Context) error {
	if c.family == kernel.Unix && !c.connected {
		if err := c.socket.UnwatchWritable(); err != nil {
			return err
		}
		timer := c.loop().CallLater(unixRetryInterval, func() { c.writes.wake(nil) })
		defer timer.Cancel()
	}
	return c.writes.wait(ctx, "PacketConn.Write")
}
