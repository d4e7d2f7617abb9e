package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tty is a terminal with a command in it.
type tty struct {
	t       *testing.T
	master  *os.File
	cmd     *exec.Cmd
	mu      sync.Mutex
	shown   strings.Builder // guarded by mu
	changed chan struct{}   // receives after shown has changed
	closed  chan struct{}
}

// openTTY opens a pseudo-terminal of 100 columns and 30 lines.
func openTTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100}); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		master.Close()
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	return master, slave
}

// startTTY runs the command in a terminal.
func startTTY(t *testing.T, args ...string) *tty {
	t.Helper()
	master, slave := openTTY(t)
	defer slave.Close()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &tty{t: t, master: master, cmd: cmd, changed: make(chan struct{}, 1), closed: make(chan struct{})}
	go func() {
		defer close(s.closed)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			s.mu.Lock()
			s.shown.Write(buf[:n])
			s.mu.Unlock()
			select {
			case s.changed <- struct{}{}:
			default:
			}
			if err != nil { // the command has closed the terminal
				return
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		<-s.closed
		master.Close()
	})
	return s
}

func (s *tty) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.String()
}

// screen returns what was drawn last.
func (s *tty) screen() string {
	all := strings.Split(s.text(), "\x1b[H")
	return all[len(all)-1]
}

// until waits until a whole screen satisfies a condition.
func (s *tty) until(what string, is func(screen string) bool) {
	s.t.Helper()
	limit, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for {
		if screen := s.screen(); strings.HasSuffix(screen, "\x1b[J") && is(screen) {
			return
		}
		select {
		case <-s.changed:
		case <-s.closed:
			s.t.Fatalf("the command ends before it shows %s; it printed\n%s", what, s.text())
		case <-limit.Done():
			s.t.Fatalf("the terminal does not show %s; it shows\n%s", what, s.screen())
		}
	}
}

func (s *tty) shows(want string) {
	s.t.Helper()
	s.until(want, func(screen string) bool { return strings.Contains(screen, want) })
}

func (s *tty) press(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.master, keys); err != nil {
		s.t.Fatal(err)
	}
}

// TestTopInATerminal chooses, sorts and filters tasks, looks at a stack and at a loop that is
// blocked, and quits.
func TestTopInATerminal(t *testing.T) {
	addr, block := inspected(t)
	s := startTTY(t, "top", "--interval", "100ms", addr)
	s.shows("tasks, busiest first")
	s.press("t")
	s.shows("tasks, as a tree")
	s.shows("  order 3 ")
	s.press("/order 17")
	s.shows("with: order 17")
	s.until("one order", func(screen string) bool {
		return strings.Contains(screen, "2 of ") && !strings.Contains(screen, "order 3 ")
	})
	s.press("\r\x1b[B\r") // keeps the filter, goes down to the order, shows it
	s.shows("function    top_test.go:")
	s.shows("waits for   Sleep")
	s.press("\x1b")
	s.shows("as a tree")
	release := block()
	s.shows("blocked ")
	s.until("the line that blocks", func(screen string) bool { return strings.Contains(screen, "blockedHere") })
	release()
	s.until("a loop that runs", func(screen string) bool { return !strings.Contains(screen, "blockedHere") })
	s.press("q")
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("q ends it with %v", err)
	}
	<-s.closed
	if !strings.HasSuffix(s.text(), "\x1b[?25h\x1b[?1049l") {
		t.Errorf("it leaves the terminal after %q", s.text()[max(0, len(s.text())-40):])
	}
}

// TestTopRestoresTheTerminal ends the command by a signal. The terminal echoes again.
func TestTopRestoresTheTerminal(t *testing.T) {
	addr, _ := inspected(t)
	s := startTTY(t, "top", addr)
	s.shows("orders")
	mode := func() uint32 {
		termios, err := unix.IoctlGetTermios(int(s.master.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return termios.Lflag & (unix.ECHO | unix.ICANON | unix.ISIG)
	}
	if mode() != 0 {
		t.Error("the terminal echoes keys")
	}
	s.cmd.Process.Signal(os.Interrupt)
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("a signal ends it with %v", err)
	}
	if mode() != unix.ECHO|unix.ICANON|unix.ISIG {
		t.Errorf("the terminal is left with mode %o", mode())
	}
}
