//go:build linux || darwin || dragonfly || freebsd || netbsd

package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// isTerminal asks for the window's size, which only terminals have: unlike the
// termios calls it is the same request on every system.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// pair is two sockets that are connected. It is not made of os.Files, because
// Go's own poller would then be told of every byte as well.
type pair struct{ near, far int }

func newPair() (pair, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return pair{}, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			pair{fds[0], fds[1]}.close()
			return pair{}, os.NewSyscallError("fcntl", err)
		}
	}
	return pair{fds[0], fds[1]}, nil
}

// send makes the near end readable.
func (p pair) send() error {
	_, err := unix.Write(p.far, []byte{1})
	return os.NewSyscallError("write", err)
}

func (p pair) close() {
	unix.Close(p.near)
	unix.Close(p.far)
}

// spent is what this process has used up.
func spent() (expense, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return expense{}, os.NewSyscallError("getrusage", err)
	}
	return expense{
		cpu:      time.Duration(u.Utime.Nano() + u.Stime.Nano()),
		switches: int64(u.Nvcsw),
	}, nil
}
