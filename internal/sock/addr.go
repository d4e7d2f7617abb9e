package sock

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

// Network is a parsed network name of package net: "tcp", "udp6", "unixgram".
type Network struct {
	Name string
	Type kernel.Type
	IP   string // "ip", "ip4" or "ip6"; "" for Unix
}

// ParseNetwork parses tcp, tcp4, tcp6, udp, udp4, udp6, unix and unixgram.
func ParseNetwork(name string) (Network, error) {
	switch base := strings.TrimRight(name, "46"); {
	case base == "tcp" && len(name) <= 4:
		return Network{name, kernel.Stream, "ip" + name[3:]}, nil
	case base == "udp" && len(name) <= 4:
		return Network{name, kernel.Datagram, "ip" + name[3:]}, nil
	case name == "unix":
		return Network{name, kernel.Stream, ""}, nil
	case name == "unixgram":
		return Network{name, kernel.Datagram, ""}, nil
	}
	return Network{}, net.UnknownNetworkError(name)
}

// Target is an address to connect to or to bind. Its host may be a name that has to
// be looked up.
type Target struct {
	Network
	host string
	addr kernel.Addr // set if the host is an address, or for a path
	port uint16
}

// ParseTarget parses an address in the form of package net: "host:port", or a path.
func ParseTarget(network, address string) (Target, error) {
	n, err := ParseNetwork(network)
	if err != nil {
		return Target{}, err
	}
	t := Target{Network: n}
	if n.IP == "" {
		if address == "" {
			return Target{}, &net.AddrError{Err: "missing path", Addr: address}
		}
		t.addr = kernel.Addr{Path: address}
		return t, nil
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return Target{}, err
	}
	port, err := portOf(n, service)
	if err != nil {
		return Target{}, err
	}
	t.host, t.port = host, port
	if ip, err := netip.ParseAddr(host); err == nil {
		if !n.accepts(ip) {
			return Target{}, &net.AddrError{Err: "no suitable address found", Addr: host}
		}
		t.addr = kernel.Addr{AddrPort: netip.AddrPortFrom(ip.Unmap(), port)}
	}
	return t, nil
}

func portOf(n Network, service string) (uint16, error) {
	if service == "" {
		return 0, nil
	}
	if port, err := strconv.ParseUint(service, 10, 16); err == nil {
		return uint16(port), nil
	}
	port, err := net.LookupPort(strings.TrimRight(n.Name, "46"), service)
	return uint16(port), err
}

func (n Network) accepts(ip netip.Addr) bool {
	switch n.IP {
	case "ip4":
		return ip.Unmap().Is4()
	case "ip6":
		return !ip.Unmap().Is4()
	}
	return true
}

// Known returns the address if no name has to be looked up. An empty host means
// every local address to bind, and the loopback address to connect.
func (t Target) Known(toBind bool) (kernel.Addr, bool) {
	if t.addr.Family() != 0 {
		return t.addr, true
	}
	if t.host != "" {
		return kernel.Addr{}, false
	}
	var ip netip.Addr
	switch {
	case toBind && t.IP == "ip4":
		ip = netip.IPv4Unspecified()
	case toBind:
		ip = netip.IPv6Unspecified()
	case t.IP == "ip6":
		ip = netip.IPv6Loopback()
	default:
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return kernel.Addr{AddrPort: netip.AddrPortFrom(ip, t.port)}, true
}

// WithoutIPv6 returns the address to bind on a machine without IPv6, if the target
// allows any family.
func (t Target) WithoutIPv6() (kernel.Addr, bool) {
	if t.host != "" || t.IP != "ip" {
		return kernel.Addr{}, false
	}
	return kernel.Addr{AddrPort: netip.AddrPortFrom(netip.IPv4Unspecified(), t.port)}, true
}

// Lookup resolves the host name. It blocks, so call it from a worker.
func (t Target) Lookup(ctx context.Context, r kernel.Resolver) ([]kernel.Addr, error) {
	ips, err := r.LookupNetIP(ctx, t.IP, t.host)
	if err != nil {
		return nil, err
	}
	var addrs []kernel.Addr
	for _, ip := range ips {
		if t.accepts(ip) {
			addrs = append(addrs, kernel.Addr{AddrPort: netip.AddrPortFrom(ip.Unmap(), t.port)})
		}
	}
	if len(addrs) == 0 {
		return nil, &net.AddrError{Err: "no suitable address found", Addr: t.host}
	}
	return addrs, nil
}

// NetAddr returns a as the net.Addr type of a network.
func NetAddr(network string, a kernel.Addr) net.Addr {
	switch {
	case strings.HasPrefix(network, "unix"):
		return &net.UnixAddr{Net: network, Name: a.Path}
	case strings.HasPrefix(network, "udp"):
		return net.UDPAddrFromAddrPort(a.AddrPort)
	case strings.HasPrefix(network, "tcp"):
		return net.TCPAddrFromAddrPort(a.AddrPort)
	}
	return pipeAddr{}
}

// pipeAddr stands for the address of a pipe, which has none.
type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// UnknownAddr returns an empty address of the connection's network. It stands for an
// address that the system no longer knows, because the connection is closed or reset.
func (c *Conn) UnknownAddr() net.Addr {
	network := "unix"
	switch c.kind {
	case TCP:
		network = "tcp"
	case Pipe:
		network = "pipe"
	}
	return NetAddr(network, kernel.Addr{})
}

// NetworkOf returns the network name of a socket of family f and type t.
func NetworkOf(f kernel.Family, t kernel.Type) string {
	switch {
	case f == kernel.Unix && t == kernel.Datagram:
		return "unixgram"
	case f == kernel.Unix:
		return "unix"
	case t == kernel.Datagram:
		return "udp"
	}
	return "tcp"
}

// Addrs returns the addresses of a connected socket, nil for one that is unknown.
func (r *Registry) Addrs(fd int, network string) (local, remote net.Addr) {
	if a, err := r.K.LocalAddr(fd); err == nil {
		local = NetAddr(network, a)
	}
	if a, err := r.K.PeerAddr(fd); err == nil {
		remote = NetAddr(network, a)
	}
	return local, remote
}

// Error returns err as package net would: a *net.OpError that wraps the system error.
func Error(op, network string, local, remote net.Addr, err error) error {
	if err == nil {
		return nil
	}
	if errno, ok := err.(syscall.Errno); ok {
		if errno == syscall.EBADF {
			err = net.ErrClosed
		} else {
			err = os.NewSyscallError(syscallOf(op), errno)
		}
	}
	var inner *net.OpError
	if errors.As(err, &inner) {
		return err
	}
	return &net.OpError{Op: op, Net: network, Source: local, Addr: remote, Err: err}
}

// syscallOf returns the name of the system call behind an operation.
func syscallOf(op string) string {
	switch op {
	case "dial":
		return "connect"
	case "set":
		return "setsockopt"
	case "handshake":
		return "read"
	}
	return op
}
