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

// copyAll starts a task for each pipe that is not the user's, which copies between
// it and what the Cmd named.
func (p *Process) copyAll(n *spindle.Nursery) {
	c := &p.cmd
	if c.Stdin != Pipe {
		p.copy(n, 0, func(conn *stream.Conn) error { return feed(conn, c.Stdin) })
	}
	if c.Stdout != Pipe {
		p.copy(n, 1, func(conn *stream.Conn) error { return drain(c.Stdout, conn) })
	}
	if c.Stderr != Pipe {
		p.copy(n, 2, func(conn *stream.Conn) error { return drain(c.Stderr, conn) })
	}
}

// copy runs one of them, if there is a pipe for it, and closes the pipe at the end:
// the child, if it goes on, is told that nobody reads, or that there is no more.
func (p *Process) copy(n *spindle.Nursery, which int, do func(*stream.Conn) error) {
	conn := p.pipes[which]
	if conn == nil {
		return
	}
	name := [...]string{"stdin", "stdout", "stderr"}[which]
	n.GoWith(spindle.TaskOptions{Name: name, Eager: true}, func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(_ context.Context, s *spindle.Scope) error {
			p.copies[which] = s
			defer func() {
				p.copies[which] = nil
				conn.Close()
			}()
			err := do(conn)
			if errors.Is(err, ErrTooMuchOutput) {
				p.Kill() // it might never notice
			}
			if p.copyErr == nil && !s.Caught() && s.Err() == nil && !p.gaveUp {
				p.copyErr = err
			}
			return nil
		})
	})
}

// feed copies to the child. That the child does not want to read is its right.
func feed(to *stream.Conn, from io.Reader) error {
	_, err := io.Copy(to, from)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// drain copies from the child.
func drain(to io.Writer, from *stream.Conn) error {
	_, err := io.Copy(to, from)
	return err
}
