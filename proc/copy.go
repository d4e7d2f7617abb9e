package proc

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

// copyAll starts a task for each pipe that the user does not read or write. The task
// copies between the pipe and the reader or writer in the Cmd.
func (p *Process) copyAll(n *spindle.Nursery) {
	c := &p.cmd
	if c.Stdin != Pipe {
		p.copy(n, 0, func(conn *stream.Conn) error { return copyToChild(conn, c.Stdin) })
	}
	if c.Stdout != Pipe {
		p.copy(n, 1, func(conn *stream.Conn) error { return copyFromChild(c.Stdout, conn) })
	}
	if c.Stderr != Pipe {
		p.copy(n, 2, func(conn *stream.Conn) error { return copyFromChild(c.Stderr, conn) })
	}
}

// copy starts one of these tasks, if there is a pipe for it. The task closes the
// pipe at the end, so that a child that is still running sees the end of its input,
// or that its output is not read any more.
func (p *Process) copy(n *spindle.Nursery, which int, do func(*stream.Conn) error) {
	conn := p.pipes[which]
	if conn == nil {
		return
	}
	name := [...]string{"stdin", "stdout", "stderr"}[which]
	n.GoWith(spindle.TaskOptions{Name: name, Eager: true}, func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(_ context.Context, s *spindle.Scope) error {
			p.copyScopes[which] = s
			defer func() {
				p.copyScopes[which] = nil
				conn.Close()
			}()
			err := do(conn)
			if errors.Is(err, errTooMuchOutput) {
				p.Kill() // the child might never notice otherwise
			}
			if p.copyErr == nil && !s.Caught() && s.Err() == nil && !p.terminated {
				p.copyErr = err
			}
			return nil
		})
	})
}

// copyToChild copies to the child. A child that stops reading causes no error.
func copyToChild(to *stream.Conn, from io.Reader) error {
	_, err := io.Copy(to, from)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// copyFromChild copies from the child.
func copyFromChild(to io.Writer, from *stream.Conn) error {
	_, err := io.Copy(to, from)
	return err
}
