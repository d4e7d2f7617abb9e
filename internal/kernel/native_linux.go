package kernel

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Adopt reopens a terminal, as libuv does: a duplicate would leave the terminal
// non-blocking for the shell after this program ends. The master of a
// pseudo-terminal is duplicated, because opening it creates another terminal.
func (*sockets) Adopt(fd int) (int, error) {
	if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
		return dupNonblock(fd)
	}
	if _, err := unix.IoctlGetInt(fd, unix.TIOCGPTN); err == nil {
		return dupNonblock(fd)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return -1, err
	}
	own, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd),
		flags&unix.O_ACCMODE|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil { // no /proc, or another user's terminal
		return dupNonblock(fd)
	}
	return own, nil
}

// Unlisten refuses Unix sockets. After a shutdown they stay readable although Accept
// fails with EAGAIN.
func (s *sockets) Unlisten(fd int) error {
	if a, err := s.LocalAddr(fd); err != nil || a.Family() == Unix {
		return unix.EOPNOTSUPP
	}
	return unix.Shutdown(fd, unix.SHUT_RDWR)
}

func (s *sockets) PeerCred(fd int) (Cred, error) {
	a, err := s.LocalAddr(fd)
	switch {
	case err == unix.ENOTSOCK || err == nil && a.Family() != Unix:
		return Cred{}, unix.EOPNOTSUPP // the system would return meaningless values
	case err != nil:
		return Cred{}, err
	}
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Cred{}, err
	}
	return Cred{PID: int(c.Pid), UID: int(c.Uid), GID: int(c.Gid)}, nil
}

// SendFile, like Splice, has no flag that suppresses SIGPIPE. The Go runtime ignores
// the signal unless it concerns standard output or standard error.
func (*sockets) SendFile(to, file int, offset int64, n int) (int, error) {
	for {
		sent, err := unix.Sendfile(to, file, &offset, n)
		if err != unix.EINTR {
			return max(sent, 0), err
		}
	}
}

func (*sockets) Pipe() (int, int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return -1, -1, err
	}
	// A larger pipe needs fewer calls for a large transfer. The system refuses
	// the size to a user with many pipes; the default size works too.
	_, _ = unix.FcntlInt(uintptr(p[0]), unix.F_SETPIPE_SZ, 1<<20)
	return p[0], p[1], nil
}

func (*sockets) Splice(from, to, n int) (int, error) {
	for {
		moved, err := unix.Splice(from, nil, to, nil, n, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if err != unix.EINTR {
			return int(max(moved, 0)), err
		}
	}
}
