package kernel

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RecvFrom and SendTo do not allocate for the internet families, because a datagram
// server calls them for every datagram. Here the address stays on the stack; x/sys
// returns it as an interface, which escapes.

func (*sockets) RecvFrom(fd int, p []byte) (int, Addr, bool, error) {
	var (
		from unix.RawSockaddrAny
		iov  = unix.Iovec{Base: unsafe.SliceData(p)}
		msg  = unix.Msghdr{
			Name:    (*byte)(unsafe.Pointer(&from)),
			Namelen: unix.SizeofSockaddrAny,
			Iov:     &iov,
		}
	)
	iov.SetLen(len(p))
	msg.SetIovlen(1)
	for {
		n, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), 0)
		switch errno {
		case 0:
			return int(n), addrOfRaw(&from, msg.Namelen), msg.Flags&unix.MSG_TRUNC != 0, nil
		case unix.EINTR:
		default:
			return 0, Addr{}, false, errno
		}
	}
}

func addrOfRaw(sa *unix.RawSockaddrAny, size uint32) Addr {
	if size == 0 { // a Unix socket without a name, or a connected stream
		return Addr{}
	}
	switch sa.Addr.Family {
	case unix.AF_INET:
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		return Addr{AddrPort: netip.AddrPortFrom(netip.AddrFrom4(in.Addr), hostOrder(&in.Port))}
	case unix.AF_INET6:
		in := (*unix.RawSockaddrInet6)(unsafe.Pointer(sa))
		ip := netip.AddrFrom16(in.Addr)
		if in.Scope_id != 0 {
			ip = ip.WithZone(zoneName(in.Scope_id))
		}
		return Addr{AddrPort: netip.AddrPortFrom(ip, hostOrder(&in.Port))}
	case unix.AF_UNIX:
		un := (*unix.RawSockaddrUnix)(unsafe.Pointer(sa))
		return Addr{Path: unixName(un, int(size)-int(unsafe.Offsetof(un.Path)))}
	}
	return Addr{}
}

// unixName returns the name in the first n bytes. A path ends at its first NUL. An
// abstract name starts with a NUL and has n bytes.
func unixName(un *unix.RawSockaddrUnix, n int) string {
	if n <= 0 {
		return ""
	}
	name := make([]byte, min(n, len(un.Path)))
	for i := range name {
		name[i] = byte(un.Path[i])
	}
	if name[0] == 0 {
		name[0] = '@'
		return string(name)
	}
	for i, b := range name {
		if b == 0 {
			return string(name[:i])
		}
	}
	return string(name)
}

// hostOrder converts a port from network byte order, which socket addresses use.
func hostOrder(port *uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(port))
	return uint16(b[0])<<8 | uint16(b[1])
}

// netOrder converts a port to network byte order.
func netOrder(port uint16) (out uint16) {
	b := (*[2]byte)(unsafe.Pointer(&out))
	b[0], b[1] = byte(port>>8), byte(port)
	return out
}

func (s *sockets) SendTo(fd int, p []byte, to Addr) (int, error) {
	switch to.Family() {
	case IPv4:
		sa := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: netOrder(to.Port()), Addr: to.Addr().As4()}
		return sendTo(fd, p, unsafe.Pointer(&sa), unsafe.Sizeof(sa))
	case IPv6:
		zone, err := zoneID(to.Addr().Zone())
		if err != nil {
			return 0, err
		}
		sa := unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: netOrder(to.Port()), Addr: to.Addr().As16(), Scope_id: zone}
		return sendTo(fd, p, unsafe.Pointer(&sa), unsafe.Sizeof(sa))
	case Unix:
		return sendToPath(fd, p, to)
	}
	return s.Send(fd, p)
}

func sendTo(fd int, p []byte, sa unsafe.Pointer, size uintptr) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), noSignal, uintptr(sa), size)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

func sendToPath(fd int, p []byte, to Addr) (int, error) {
	sa, err := sockaddr(to)
	if err != nil {
		return 0, err
	}
	for {
		n, err := unix.SendmsgN(fd, p, nil, sa, noSignal)
		if err != unix.EINTR {
			return n, err
		}
	}
}
