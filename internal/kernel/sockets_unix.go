//go:build linux || darwin || dragonfly || freebsd || netbsd

package kernel

import (
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// sockets makes the system's calls. Those on the path of every request (Accept,
// Recv, Send, RecvFrom, SendTo, CloseFD) are in the system's own file.
//
// The methods have pointer receivers, so that a call through the interface needs no
// generated wrapper. After a system call the processor does not predict returns, and
// each frame less saves a few nanoseconds.
type sockets struct{}

func (*sockets) Bind(fd int, a Addr) error {
	sa, err := sockaddr(a)
	if err != nil {
		return err
	}
	return unix.Bind(fd, sa)
}

func (*sockets) Listen(fd, backlog int) error { return unix.Listen(fd, backlog) }

// Connect does not retry after EINTR: the connect continues, as after EINPROGRESS.
func (*sockets) Connect(fd int, a Addr) error {
	sa, err := sockaddr(a)
	if err != nil {
		return err
	}
	err = unix.Connect(fd, sa)
	if err == unix.EINTR {
		return unix.EINPROGRESS
	}
	return err
}

func (*sockets) Sendv(fd int, bufs [][]byte) (int, error) {
	for {
		n, err := unix.SendmsgBuffers(fd, bufs, nil, nil, noSignal)
		if err != unix.EINTR {
			return n, err
		}
	}
}

func (*sockets) Read(fd int, p []byte) (int, error) {
	for {
		n, err := unix.Read(fd, p)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

func (*sockets) Write(fd int, p []byte) (int, error) {
	for {
		n, err := unix.Write(fd, p)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

func (*sockets) Shutdown(fd int, s Side) error {
	how := unix.SHUT_RDWR
	switch s {
	case ReadSide:
		how = unix.SHUT_RD
	case WriteSide:
		how = unix.SHUT_WR
	}
	return unix.Shutdown(fd, how)
}

func (*sockets) LocalAddr(fd int) (Addr, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return Addr{}, err
	}
	return addrOf(sa), nil
}

func (*sockets) PeerAddr(fd int) (Addr, error) {
	sa, err := unix.Getpeername(fd)
	if err != nil {
		return Addr{}, err
	}
	return addrOf(sa), nil
}

// options has the level and name of each Option with a plain integer value.
var options = map[Option]struct{ level, name int }{
	ReuseAddr:   {unix.SOL_SOCKET, unix.SO_REUSEADDR},
	ReusePort:   {unix.SOL_SOCKET, unix.SO_REUSEPORT},
	NoDelay:     {unix.IPPROTO_TCP, unix.TCP_NODELAY},
	KeepAlive:   {unix.SOL_SOCKET, unix.SO_KEEPALIVE},
	Broadcast:   {unix.SOL_SOCKET, unix.SO_BROADCAST},
	IPv6Only:    {unix.IPPROTO_IPV6, unix.IPV6_V6ONLY},
	SendBuffer:  {unix.SOL_SOCKET, unix.SO_SNDBUF},
	RecvBuffer:  {unix.SOL_SOCKET, unix.SO_RCVBUF},
	SocketError: {unix.SOL_SOCKET, unix.SO_ERROR},
}

func (*sockets) SetOption(fd int, o Option, value int) error {
	if o == LingerSeconds {
		l := unix.Linger{Linger: int32(max(value, 0))}
		if value >= 0 {
			l.Onoff = 1
		}
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &l)
	}
	opt, ok := options[o]
	if !ok || o == SocketError {
		return unix.EINVAL
	}
	return unix.SetsockoptInt(fd, opt.level, opt.name, value)
}

func (*sockets) Option(fd int, o Option) (int, error) {
	opt, ok := options[o]
	if !ok {
		return 0, unix.EINVAL
	}
	return unix.GetsockoptInt(fd, opt.level, opt.name)
}

// families and types map a Family and a Type to the system's constants.
var (
	families = [...]int{IPv4: unix.AF_INET, IPv6: unix.AF_INET6, Unix: unix.AF_UNIX}
	types    = [...]int{Stream: unix.SOCK_STREAM, Datagram: unix.SOCK_DGRAM}
)

// domain returns the system's constants for f and t.
func domain(f Family, t Type) (int, int, error) {
	if int(f) >= len(families) || int(t) >= len(types) || f == 0 || t == 0 {
		return 0, 0, unix.EINVAL
	}
	return families[f], types[t], nil
}

func sockaddr(a Addr) (unix.Sockaddr, error) {
	switch a.Family() {
	case IPv4:
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}, nil
	case IPv6:
		zone, err := zoneID(a.Addr().Zone())
		if err != nil {
			return nil, err
		}
		return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16(), ZoneId: zone}, nil
	case Unix:
		name := a.Path
		if name[0] == 0 {
			name = "@" + name[1:]
		}
		return &unix.SockaddrUnix{Name: name}, nil
	}
	return nil, unix.EINVAL
}

func addrOf(sa unix.Sockaddr) Addr {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return Addr{AddrPort: netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))}
	case *unix.SockaddrInet6:
		ip := netip.AddrFrom16(sa.Addr)
		if sa.ZoneId != 0 {
			ip = ip.WithZone(zoneName(sa.ZoneId))
		}
		return Addr{AddrPort: netip.AddrPortFrom(ip, uint16(sa.Port))}
	case *unix.SockaddrUnix:
		return Addr{Path: sa.Name}
	}
	return Addr{}
}

func zoneID(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	ifc, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, unix.ENODEV
	}
	return uint32(ifc.Index), nil
}

func zoneName(id uint32) string {
	if ifc, err := net.InterfaceByIndex(int(id)); err == nil {
		return ifc.Name
	}
	return strconv.FormatUint(uint64(id), 10)
}
