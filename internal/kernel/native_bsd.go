//go:build darwin || dragonfly || freebsd || netbsd

package kernel

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// These systems have a sendfile, each another one, and credentials of a peer
// under other names. None of it is here until it can be tested.

func (*sockets) Unlisten(int) error         { return unix.ENOSYS } // it would be ENOTCONN
func (*sockets) PeerCred(int) (Cred, error) { return Cred{}, unix.ENOSYS }
func (*sockets) SendFile(int, int, int64, int) (int, error) {
	return 0, unix.ENOSYS
}
func (*sockets) Splice(int, int, int) (int, error) { return 0, unix.ENOSYS }

func (*sockets) Adopt(fd int) (int, error) {
	own, err := adopt(fd)
	if err != nil {
		return -1, err
	}
	// What is no socket has no such option, and need not be asked.
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
