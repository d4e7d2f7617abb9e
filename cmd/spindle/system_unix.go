//go:build linux || darwin || dragonfly || freebsd || netbsd

package main

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// isTerminal reports whether f is a terminal. It asks for the window size, which only
// terminals have; unlike the termios calls the request is the same on every system.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// pair is a pair of connected sockets. The near one is non-blocking, for a loop; the far one
// blocks. They are not os.Files, because Go's own poller would then report every byte too.
type pair struct{ near, far int }

func newPair() (pair, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return pair{}, os.NewSyscallError("socketpair", err)
	}
	p := pair{fds[0], fds[1]}
	unix.CloseOnExec(p.near)
	unix.CloseOnExec(p.far)
	if err := unix.SetNonblock(p.near, true); err != nil {
		p.close()
		return pair{}, os.NewSyscallError("fcntl", err)
	}
	return p, nil
}

// send makes the near end readable.
func (p pair) send() error {
	_, err := unix.Write(p.far, []byte{1})
	return os.NewSyscallError("write", err)
}

// answered waits for a byte from the near end.
func (p pair) answered() error {
	var b [1]byte
	for {
		n, err := unix.Read(p.far, b[:])
		switch {
		case err == unix.EINTR:
		case err == nil && n == 0:
			return io.ErrUnexpectedEOF
		default:
			return os.NewSyscallError("read", err)
		}
	}
}

// hangUp shuts the pair down, which ends a call of answered.
func (p pair) hangUp() { unix.Shutdown(p.near, unix.SHUT_RDWR) }

// sleepThread makes the thread sleep, not only the goroutine.
func sleepThread(d time.Duration) {
	t := unix.NsecToTimeval(int64(d))
	unix.Select(0, nil, nil, nil, &t)
}

func (p pair) close() {
	unix.Close(p.near)
	unix.Close(p.far)
}

// usageNow returns what the process has used so far.
func usageNow() (resources, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return resources{}, os.NewSyscallError("getrusage", err)
	}
	return resources{
		cpu:      time.Duration(u.Utime.Nano() + u.Stime.Nano()),
		switches: int64(u.Nvcsw),
	}, nil
}
