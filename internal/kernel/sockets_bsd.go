//go:build darwin || dragonfly || freebsd || netbsd

package kernel

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// noSignal is empty: SO_NOSIGPIPE is set on every socket instead.
const noSignal = 0

func (sockets) Socket(f Family, t Type) (int, error) {
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

func (sockets) Accept(fd int) (int, error) {
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

// prepare makes a new socket non-blocking and silent about broken pipes.
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

func (s sockets) Recv(fd int, p []byte) (int, error) { return s.Read(fd, p) }
func (s sockets) Send(fd int, p []byte) (int, error) { return s.Write(fd, p) }

// CloseFD does not try again after EINTR: a second close might hit whoever got
// the number.
func (sockets) CloseFD(fd int) error {
	if err := unix.Close(fd); err != nil && err != unix.EINTR {
		return err
	}
	return nil
}
