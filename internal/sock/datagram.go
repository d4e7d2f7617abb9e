package sock

import (
	"net"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

// RecvFrom reads one datagram from a datagram socket. It fails with EAGAIN if there
// is none. An empty datagram is not EOF.
func (c *Conn) RecvFrom(p []byte) (n int, from kernel.Addr, truncated bool, err error) {
	switch {
	case c.is(isClosed):
		return 0, from, false, syscall.EBADF
	case c.is(drained):
		return 0, from, false, syscall.EAGAIN
	}
	n, from, truncated, err = c.reg.K.RecvFrom(int(c.fd), p)
	if err == syscall.EAGAIN {
		c.state |= drained
	}
	c.reg.in += uint64(max(n, 0))
	return n, from, truncated, err
}

// SendTo sends one datagram, to the connected peer if to is the zero Addr. If the
// system's buffer is full it fails with EAGAIN, and Owner.Ready says when to retry.
func (c *Conn) SendTo(p []byte, to kernel.Addr) error {
	switch {
	case c.is(isClosed):
		return syscall.EBADF
	case c.is(full):
		return syscall.EAGAIN
	}
	_, err := c.reg.K.SendTo(int(c.fd), p, to)
	switch err {
	case nil:
		c.reg.out += uint64(len(p))
	case syscall.EAGAIN:
		c.state |= full
		if err := c.watchFor(c.watched | kernel.Write); err != nil {
			return err
		}
	}
	return err
}

// ForgetReadiness discards the cached readiness, so that the next read and write call
// the system.
func (c *Conn) ForgetReadiness() { c.state &^= drained | full }

// DatagramBinding configures a datagram socket. A zero Addr is not bound or connected.
type DatagramBinding struct {
	Family        kernel.Family
	Local, Remote kernel.Addr
	ReusePort     bool
	ReuseAddress  bool
	Broadcast     bool
	V6Only        bool
}

// Datagram makes a datagram socket.
func (r *Registry) Datagram(b DatagramBinding) (fd int, err error) {
	k := r.K
	if fd, err = k.Socket(b.Family, kernel.Datagram); err != nil {
		return -1, err
	}
	option := func(o kernel.Option, on bool) func() error {
		return func() error {
			if !on {
				return nil
			}
			return k.SetOption(fd, o, 1)
		}
	}
	if err = runSteps(
		option(kernel.ReusePort, b.ReusePort),
		option(kernel.ReuseAddr, b.ReuseAddress),
		option(kernel.Broadcast, b.Broadcast),
		func() error { return r.setV6Only(fd, b.Family, b.V6Only) },
		func() error {
			if b.Local.Family() == 0 {
				return nil
			}
			return k.Bind(fd, b.Local)
		},
		func() error {
			if b.Remote.Family() == 0 {
				return nil
			}
			return k.Connect(fd, b.Remote)
		},
	); err != nil {
		k.CloseFD(fd)
		return -1, err
	}
	return fd, nil
}

// ParseDatagram returns the binding of a datagram socket for addresses in the form of
// package net. An empty address means none.
func ParseDatagram(network, local, remote string) (b DatagramBinding, err error) {
	n, err := ParseNetwork(network)
	if err == nil && n.Type != kernel.Datagram {
		err = net.UnknownNetworkError(network)
	}
	if err != nil {
		return b, err
	}
	b.V6Only = n.IP == "ip6"
	if remote != "" {
		if _, b.Remote, err = parseKnown(network, remote, false); err != nil {
			return b, err
		}
		b.Family = b.Remote.Family()
	}
	switch {
	case n.IP == "" && local == "":
		b.Family = kernel.Unix
		return b, nil
	case local == "" && remote != "":
		return b, nil
	case local == "":
		local = ":0"
	}
	t, at, err := parseKnown(network, local, true)
	if err != nil {
		return b, err
	}
	if any, ok := t.WithoutIPv6(); ok && b.Family == kernel.IPv4 {
		at = any
	}
	if b.Local = at; b.Family == 0 {
		b.Family = at.Family()
	}
	if b.Family != at.Family() {
		return b, &net.AddrError{Err: "mismatched local address type", Addr: local}
	}
	return b, nil
}

func parseKnown(network, address string, toBind bool) (Target, kernel.Addr, error) {
	t, err := ParseTarget(network, address)
	if err != nil {
		return t, kernel.Addr{}, err
	}
	a, ok := t.Known(toBind)
	if !ok {
		err = &net.AddrError{Err: "not an address (a name must be looked up first)", Addr: address}
	}
	return t, a, err
}

// WithoutIPv6 returns the binding to try on a machine without IPv6, if b allows any
// family.
func (b DatagramBinding) WithoutIPv6(network, local string) (DatagramBinding, bool) {
	if network != "udp" || b.Remote.Family() != 0 {
		return b, false
	}
	if local == "" {
		local = ":0"
	}
	t, err := ParseTarget(network, local)
	if err != nil {
		return b, false
	}
	a, ok := t.WithoutIPv6()
	b.Local, b.Family = a, kernel.IPv4
	return b, ok
}
