package simkernel

import (
	"net/netip"
	"slices"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

// portKey is a port of TCP or UDP.
type portKey struct {
	kind kernel.Type
	port uint16
}

// The range of ephemeral ports.
const (
	firstEphemeral = 10000
	ephemerals     = 65536 - firstEphemeral
)

var (
	loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6 = netip.IPv6Loopback()
)

// onWire returns an address as it is sent: an IPv4-mapped IPv6 address becomes an IPv4
// address.
func onWire(a kernel.Addr) kernel.Addr {
	if ip := a.Addr(); ip.Is4In6() {
		a.AddrPort = netip.AddrPortFrom(ip.Unmap(), a.Port())
	}
	return a
}

// inFamily returns an address in the form of the socket's family.
func (s *socket) inFamily(a kernel.Addr) kernel.Addr {
	switch ip := a.Addr(); {
	case s.family == kernel.Unix && a.Path == "":
		a.Path = "@" // as on Linux for a socket without a name
	case s.family == kernel.IPv6 && ip.Is4():
		a.AddrPort = netip.AddrPortFrom(netip.AddrFrom16(ip.As16()), a.Port())
	case !ip.IsValid() && s.family == kernel.IPv4:
		a.AddrPort = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	case !ip.IsValid() && s.family == kernel.IPv6:
		a.AddrPort = netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	}
	return a
}

// bind binds the socket to an address of its host. Port 0 means a free port.
func (s *socket) bind(a kernel.Addr) error {
	h, ip := s.host, a.Addr()
	if !ip.IsUnspecified() && !ip.IsLoopback() && h.w.addrs[ip] != h {
		return syscall.EADDRNOTAVAIL
	}
	port := a.Port()
	if port == 0 {
		if port = h.freePort(s.kind); port == 0 {
			return syscall.EADDRINUSE
		}
	}
	s.local = kernel.Addr{AddrPort: netip.AddrPortFrom(ip, port)}
	key := portKey{s.kind, port}
	if slices.ContainsFunc(h.ports[key], s.conflicts) {
		s.local = kernel.Addr{}
		return syscall.EADDRINUSE
	}
	s.bound = true
	h.ports[key] = append(h.ports[key], s)
	return nil
}

// unbind releases the socket's address.
func (s *socket) unbind() {
	if !s.bound {
		return
	}
	s.bound = false
	if s.family == kernel.Unix {
		s.host.unbindUnix(s)
		return
	}
	key := portKey{s.kind, s.local.Port()}
	left := slices.DeleteFunc(s.host.ports[key], func(o *socket) bool { return o == s })
	if len(left) == 0 {
		delete(s.host.ports, key)
	} else {
		s.host.ports[key] = left
	}
}

// freePort returns an unused port, or 0 if there is none.
func (h *Host) freePort(kind kernel.Type) uint16 {
	next := h.nextPort[kind]
	for range ephemerals {
		port := firstEphemeral + next%ephemerals
		next++
		if len(h.ports[portKey{kind, port}]) == 0 {
			h.nextPort[kind] = next % ephemerals
			return port
		}
	}
	return 0
}

// conflicts reports whether two sockets cannot be bound to the same port, by the rules of
// Linux.
func (s *socket) conflicts(o *socket) bool {
	switch {
	case !overlap(s, o):
		return false
	case s.on(kernel.ReusePort) && o.on(kernel.ReusePort):
		return false
	case s.on(kernel.ReuseAddr) && o.on(kernel.ReuseAddr):
		return s.kind == kernel.Stream && o.listens
	}
	return true
}

func overlap(s, o *socket) bool {
	a, b := s.local.Addr(), o.local.Addr()
	if a == b {
		return true
	}
	return s.covers(b) || o.covers(a)
}

// covers reports whether the socket's address includes ip.
func (s *socket) covers(ip netip.Addr) bool {
	own := s.local.Addr()
	switch {
	case own == ip:
		return true
	case !own.IsUnspecified():
		return false
	case own.Is4() == ip.Is4():
		return true
	}
	return own.Is6() && !s.on(kernel.IPv6Only)
}

// find returns the socket that receives what from sends to an address: one that is
// connected to from, else one that is bound to that address, else one that is bound to
// the unspecified address. If several sockets share an address, the sender determines
// which one it is.
func (h *Host) find(kind kernel.Type, to, from kernel.Addr, fit func(*socket) bool) *socket {
	var few [4]*socket
	best := few[:0]
	rank := 0
	for _, s := range h.ports[portKey{kind, to.Port()}] {
		if !s.covers(to.Addr()) || !fit(s) {
			continue
		}
		r := 1
		if !s.local.Addr().IsUnspecified() {
			r = 2
		}
		if s.kind == kernel.Datagram && s.remote.IsValid() {
			if s.remote != from {
				continue
			}
			r += 2
		}
		if r > rank {
			rank, best = r, best[:0]
		}
		if r == rank {
			best = append(best, s)
		}
	}
	switch len(best) {
	case 0:
		return nil
	case 1:
		return best[0]
	}
	ip := from.Addr().As16()
	sum := uint32(from.Port())
	for _, b := range ip {
		sum = (sum ^ uint32(b)) * 16777619
	}
	return best[sum%uint32(len(best))]
}

// route returns the host with the given address, the address to send to, and the source
// address that h uses. The host is nil if there is none.
func (h *Host) route(ip netip.Addr) (to *Host, target, source netip.Addr) {
	switch {
	case ip.IsUnspecified() && ip.Is4(), ip.IsLoopback() && ip.Is4():
		if ip.IsUnspecified() {
			ip = loopback4
		}
		return h, ip, loopback4
	case ip.IsUnspecified(), ip.IsLoopback():
		return h, loopback6, loopback6
	}
	to = h.w.addrs[ip]
	if to == h {
		return h, ip, ip
	}
	for _, own := range h.addrs {
		if own.Unmap().Is4() == ip.Is4() {
			return to, ip, own.Unmap()
		}
	}
	return nil, ip, netip.Addr{}
}
