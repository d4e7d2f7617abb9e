//go:build linux

package proc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// announcement precedes the address in the line that a server prints when it is ready.
const announcement = "listening on "

// startLimit is how long a server may take to announce its address.
const startLimit = 15 * time.Second

// A Server is a running child process that listens on Addr.
type Server struct {
	Addr string
	Pid  int

	cmd    *exec.Cmd
	stderr *tail
	exited chan error // receives Wait's result once
}

// StartServer runs argv on the given cores and waits until it has announced its
// address on standard output. The environment is ours with env added.
func StartServer(cores []int, argv, env []string) (*Server, error) {
	return start(cores, argv, env, scanAddress)
}

// StartAt is StartServer for a server that is told to listen on addr and does not announce it.
func StartAt(addr string, cores []int, argv, env []string) (*Server, error) {
	return start(cores, argv, env, func(out io.Reader, found chan<- string) {
		go func() {
			for end := time.Now().Add(startLimit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				if c, err := net.Dial("tcp", addr); err == nil {
					c.Close()
					found <- addr
					return
				}
			}
		}()
		io.Copy(io.Discard, out)
	})
}

func start(cores []int, argv, env []string, find func(out io.Reader, found chan<- string)) (*Server, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	// If the harness is killed, its servers must not keep running. A server may have workers, which are in
	// its group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	s := &Server{cmd: cmd, stderr: &tail{}, exited: make(chan error, 1)}
	cmd.Stderr = s.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := StartOn(cores, cmd); err != nil {
		return nil, err
	}
	s.Pid = cmd.Process.Pid
	found := make(chan string, 1)
	go func() {
		find(out, found)
		s.exited <- cmd.Wait() // only after the pipe has been read completely
	}()
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case s.Addr = <-found:
		return s, nil
	case err := <-s.exited:
		return nil, s.explain(fmt.Errorf("exited before it listened: %v", err))
	case <-limit.C:
		s.Stop()
		return nil, s.explain(fmt.Errorf("not listening after %v", startLimit))
	}
}

// scanAddress sends the first announced address to found. It reads until the stream ends,
// so that the server never blocks on a full pipe.
func scanAddress(r io.Reader, found chan<- string) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if addr, ok := parseAnnouncement(lines.Text()); ok {
			found <- addr
			break
		}
	}
	io.Copy(io.Discard, r)
}

func parseAnnouncement(line string) (addr string, ok bool) {
	_, rest, ok := strings.Cut(line, announcement)
	if !ok {
		return "", false
	}
	addr, _, _ = strings.Cut(rest, " ")
	addr = strings.TrimRight(addr, ".,;)\r")
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return "", false
	}
	return addr, true
}

// Stop stops the server and waits for its exit. It sends SIGTERM first, so that the
// server can write a profile, and kills the server if it does not exit in time. Further
// calls do nothing.
func (s *Server) Stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case err := <-s.exited:
		s.exited <- err
	case <-limit.C:
		syscall.Kill(-s.Pid, syscall.SIGKILL)
		err := <-s.exited
		s.exited <- err
	}
}

// stopLimit is how long a server may take to exit after SIGTERM.
const stopLimit = 2 * time.Second

// Err returns the reason why the server exited, or nil while it runs.
func (s *Server) Err() error {
	select {
	case err := <-s.exited:
		s.exited <- err
		return s.explain(fmt.Errorf("exited: %v", err))
	default:
		return nil
	}
}

// explain adds the end of the server's standard error to err.
func (s *Server) explain(err error) error {
	if text := s.stderr.String(); text != "" {
		return errors.Join(err, errors.New(text))
	}
	return err
}

// tail keeps the last bytes that are written to it. Any goroutine may use it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 2048

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - tailBytes; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}

// Used returns the CPU time that the server uses while fn runs, and how long that takes.
func (s *Server) Used(fn func() error) (cpu, wall time.Duration, err error) {
	before, err := CPUTime(s.Pid)
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	if err := fn(); err != nil {
		return 0, 0, err
	}
	wall = time.Since(begun)
	after, err := CPUTime(s.Pid)
	return after - before, wall, err
}
