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

// announcement stands before the address in the line by which a server says
// that it is ready.
const announcement = "listening on "

// startLimit bounds the time a server may take to say that it listens.
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
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	// A harness that is killed must not leave servers behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
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
		scanAddress(out, found)
		s.exited <- cmd.Wait() // only after the pipe is read out
	}()
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case s.Addr = <-found:
		return s, nil
	case err := <-s.exited:
		return nil, s.explain(fmt.Errorf("ended before it listened: %v", err))
	case <-limit.C:
		s.Stop()
		return nil, s.explain(fmt.Errorf("not listening after %v", startLimit))
	}
}

// scanAddress sends the first announced address to found and reads on until
// the stream ends, so that the server never blocks on a full pipe.
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

// Stop ends the server and waits for it: asked first, so that it can write what
// it has to write (a profile), killed if it does not listen. Further calls do
// nothing.
func (s *Server) Stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case err := <-s.exited:
		s.exited <- err
	case <-limit.C:
		s.cmd.Process.Kill()
		err := <-s.exited
		s.exited <- err
	}
}

// stopLimit is how long a server may take to end when asked.
const stopLimit = 2 * time.Second

// Err says why the server is gone, or is nil while it runs.
func (s *Server) Err() error {
	select {
	case err := <-s.exited:
		s.exited <- err
		return s.explain(fmt.Errorf("ended: %v", err))
	default:
		return nil
	}
}

// explain adds what the server last wrote to standard error.
func (s *Server) explain(err error) error {
	if said := s.stderr.String(); said != "" {
		return errors.Join(err, errors.New(said))
	}
	return err
}

// tail keeps the end of what is written to it. Any goroutine may use it.
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
