//go:build linux || darwin || dragonfly || freebsd || netbsd

package main

import (
	"io"
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

// pair is two sockets that are connected: the near one is for a loop, the far
// one blocks. It is not made of os.Files, because Go's own poller would then be
// told of every byte as well.
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

// hangUp ends a wait for an answer.
func (p pair) hangUp() { unix.Shutdown(p.near, unix.SHUT_RDWR) }

// doze keeps the thread, not only the goroutine, asleep.
func doze(d time.Duration) {
	t := unix.NsecToTimeval(int64(d))
	unix.Select(0, nil, nil, nil, &t)
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
