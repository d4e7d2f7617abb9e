package workerproc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

// ErrConnectTimeout is the error of WaitConnected when the process did not connect in time.
var ErrConnectTimeout = errors.New("workerproc: the process did not connect in time")

// maxDir leaves a few bytes for the name of a socket: the system limits its path to about a
// hundred bytes.
const maxDir = 90

// SocketDir makes a directory for sockets that only this user can enter. The caller removes
// it. In a simulated run SocketDir fails.
func SocketDir(ctx context.Context) (string, error) {
	if !spindle.LoopOf(ctx).Internal().Kernel().Real() {
		return "", fmt.Errorf("workerproc: no processes in a simulated run: %w", errors.ErrUnsupported)
	}
	parent, err := filepath.Abs(os.TempDir()) // the process may run in another directory
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(parent, "worker-")
	if err == nil && len(dir) > maxDir {
		_ = os.RemoveAll(dir)
		dir, err = os.MkdirTemp("/tmp", "worker-")
	}
	return dir, err
}

// socket is the Unix socket of a process. Its path exists until the process has connected.
// Loop goroutine only.
type socket struct {
	listener *stream.Listener
	ended    bool  // the process was ended
	settled  bool  // the process has connected, or err says why not
	err      error // set with settled
	waiters  spindle.Lot
}

// accept waits for the process to connect.
func (s *socket) accept(ctx context.Context, p *Process, within time.Duration) error {
	err := spindle.FailAfter(ctx, within, func(context.Context) error {
		for {
			conn, err := s.listener.AcceptConn()
			if err != nil {
				return err
			}
			if !s.ended && p.madeBy(conn) {
				p.In, p.Out = conn, bufio.NewReaderSize(conn, ReadBuffer)
				return nil
			}
			_ = conn.Close()
		}
	})
	if errors.Is(err, spindle.ErrTimeout) {
		err = ErrConnectTimeout
	}
	_ = s.listener.Close() // removes the path
	s.settled, s.err = true, err
	s.waiters.Wake(1 << 30)
	return nil
}

// madeBy reports whether a connection comes from the group of the process. The program may
// be started by a shell, so it need not be the process itself. A program that leaves the group
// is refused, because killing the group would not end it. On systems that do not say where a
// connection comes from, the mode of the socket's directory must be enough.
func (p *Process) madeBy(conn *stream.Conn) bool {
	pid, _, _, err := conn.PeerCred()
	if err != nil {
		return errors.Is(err, errors.ErrUnsupported)
	}
	group, err := syscall.Getpgid(pid)
	return err == nil && group == p.Pid()
}

// WaitConnected waits until In and Out can be used. It fails with ErrConnectTimeout if the
// process did not connect in time, and with another error if it has exited. A process without
// a socket is connected from the start.
func (p *Process) WaitConnected(ctx context.Context) error {
	if p.socket == nil {
		return nil
	}
	for !p.socket.settled {
		if err := p.socket.waiters.Wait(ctx, "a connection of the process"); err != nil {
			return err
		}
	}
	return p.socket.err
}

// Usable reports whether the process runs and either is connected or may still connect.
func (p *Process) Usable() bool {
	return p.State() == nil && (p.socket == nil || p.socket.err == nil)
}

// end closes the socket and the connection.
func (s *socket) end(conn *stream.Conn) {
	s.ended = true
	_ = s.listener.Close() // fails if it is closed
	if conn != nil {
		_ = conn.Close()
	}
}
