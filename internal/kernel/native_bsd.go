//go:build darwin || dragonfly || freebsd || netbsd

package kernel

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// These systems differ in their sendfile and in their calls for peer credentials.
// Neither is implemented until it can be tested.

func (*sockets) Unlisten(int) error         { return unix.ENOSYS } // shutdown would fail with ENOTCONN
func (*sockets) PeerCred(int) (Cred, error) { return Cred{}, unix.ENOSYS }
func (*sockets) SendFile(int, int, int64, int) (int, error) {
	return 0, unix.ENOSYS
}
func (*sockets) Splice(int, int, int) (int, error) { return 0, unix.ENOSYS }

func (*sockets) Adopt(fd int) (int, error) {
	own, err := dupNonblock(fd)
	if err != nil {
		return -1, err
	}
	// Only sockets have the option; for other files the call fails harmlessly.
	_ = unix.SetsockoptInt(own, unix.SOL_SOCKET, unix.SO_NOSIGPIPE, 1)
	return own, nil
}

func (*sockets) Pipe() (int, int, error) {
	var p [2]int
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := unix.Pipe(p[:]); err != nil {
		return -1, -1, err
	}
	for _, fd := range p {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			unix.Close(p[0])
			unix.Close(p[1])
			return -1, -1, err
		}
	}
	return p[0], p[1], nil
}
