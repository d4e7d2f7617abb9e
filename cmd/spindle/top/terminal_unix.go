//go:build linux || darwin || dragonfly || freebsd || netbsd

package top

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is a terminal that sends every key at once and shows a screen of its own.
type terminal struct {
	in, out *os.File
	before  *unix.Termios
	resized chan os.Signal
}

// openTerminal prepares a terminal. The caller restores it.
func openTerminal(in, out *os.File) (*terminal, error) {
	before, err := unix.IoctlGetTermios(int(in.Fd()), getTermios)
	if err != nil {
		return nil, os.NewSyscallError("ioctl", err)
	}
	raw := *before
	raw.Iflag &^= unix.ICRNL | unix.IXON
	raw.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(in.Fd()), setTermios, &raw); err != nil {
		return nil, os.NewSyscallError("ioctl", err)
	}
	t := &terminal{in: in, out: out, before: before, resized: make(chan os.Signal, 1)}
	signal.Notify(t.resized, syscall.SIGWINCH)
	out.WriteString("\x1b[?1049h\x1b[?25l") // the alternate screen, no cursor
	return t, nil
}

// restore gives the terminal back as it was.
func (t *terminal) restore() {
	signal.Stop(t.resized)
	t.out.WriteString("\x1b[?25h\x1b[?1049l")
	unix.IoctlSetTermios(int(t.in.Fd()), setTermios, t.before)
}

// size returns the columns and lines of the terminal.
func (t *terminal) size() (width, height int) {
	w, err := unix.IoctlGetWinsize(int(t.out.Fd()), unix.TIOCGWINSZ)
	if err != nil || w.Col == 0 || w.Row == 0 {
		return 80, 24
	}
	return int(w.Col), int(w.Row)
}
