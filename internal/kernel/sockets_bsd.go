//go:build darwin || dragonfly || freebsd || netbsd

package kernel

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// noSignal is 0: SO_NOSIGPIPE is set on every socket instead.
const noSignal = 0

func (*sockets) Socket(f Family, t Type) (int, error) {
	domain, kind, err := domain(f, t)
	if err != nil {
		return -1, err
	}
	syscall.ForkLock.RLock()
	fd, err := unix.Socket(domain, kind, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	return prepare(fd, err)
}

func (*sockets) Accept(fd int) (int, error) {
	for {
		syscall.ForkLock.RLock()
		conn, _, err := unix.Accept(fd)
		if err == nil {
			unix.CloseOnExec(conn)
		}
		syscall.ForkLock.RUnlock()
		if err != unix.EINTR {
			return prepare(conn, err)
		}
	}
}

// prepare makes a new socket non-blocking and disables SIGPIPE for it.
func prepare(fd int, err error) (int, error) {
	if err != nil {
		return -1, err
	}
	if err = unix.SetNonblock(fd, true); err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NOSIGPIPE, 1)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (s *sockets) Recv(fd int, p []byte) (int, error) { return s.Read(fd, p) }
func (s *sockets) Send(fd int, p []byte) (int, error) { return s.Write(fd, p) }

func (*sockets) RecvFrom(fd int, p []byte) (int, Addr, bool, error) {
	for {
		n, _, flags, from, err := unix.Recvmsg(fd, p, nil, 0)
		switch err {
		case unix.EINTR:
		case nil:
			return n, addrOf(from), flags&unix.MSG_TRUNC != 0, nil
		default:
			return 0, Addr{}, false, err
		}
	}
}

func (*sockets) SendTo(fd int, p []byte, to Addr) (int, error) {
	var sa unix.Sockaddr
	if to != (Addr{}) {
		var err error
		if sa, err = sockaddr(to); err != nil {
			return 0, err
		}
	}
	for {
		n, err := unix.SendmsgN(fd, p, nil, sa, noSignal)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// CloseFD does not retry after EINTR: the number may be in use again, and a second
// close would close the wrong descriptor.
func (*sockets) CloseFD(fd int) error {
	if err := unix.Close(fd); err != nil && err != unix.EINTR {
		return err
	}
	return nil
}
