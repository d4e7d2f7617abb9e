package kernel

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below are RawSyscalls: their descriptors are non-blocking, so the Go
// scheduler need not prepare for a blocked thread. CloseFD is an ordinary system
// call, because a close with linger may wait.

const noSignal = unix.MSG_NOSIGNAL

// errAgain is the most frequent error. Converting the errno each time would call a
// function that needs more stack than the coroutine of an idle connection has.
var errAgain error = unix.EAGAIN

func (*sockets) Socket(f Family, t Type) (int, error) {
	domain, kind, err := domain(f, t)
	if err != nil {
		return -1, err
	}
	return unix.Socket(domain, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
}

func (*sockets) Accept(fd int) (int, error) {
	for {
		conn, _, errno := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), 0, 0,
			unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
		switch errno {
		case 0:
			return int(conn), nil
		case unix.EINTR:
		default:
			return -1, errno
		}
	}
}

func (*sockets) Recv(fd int, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EAGAIN:
			return 0, errAgain
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

func (*sockets) Send(fd int, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), noSignal, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EAGAIN:
			return 0, errAgain
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// CloseFD does not retry after EINTR: Linux has closed the descriptor by then. Its
// number may be in use again, and a second close would close the wrong descriptor.
func (*sockets) CloseFD(fd int) error {
	if err := unix.Close(fd); err != nil && err != unix.EINTR {
		return err
	}
	return nil
}
