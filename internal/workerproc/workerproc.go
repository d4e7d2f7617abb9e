// Package workerproc runs worker processes in tasks. A worker leads a process group of its
// own, reads requests from its standard input, and answers on its standard output, or does
// both on a Unix socket.
package workerproc

import (
	"bufio"
	"context"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/proc"
	"github.com/spindleloop/spindle/stream"
)

// Config describes a worker process.
type Config struct {
	Command   []string
	Dir       string
	Env       []string
	Stderr    io.Writer // nil means the null device
	MaxMemory int64     // of its address space in bytes; zero means no limit

	// Socket is the path of a Unix socket, which is made before the process starts. The
	// process is to connect to it within ConnectWithin. Its standard output then goes where
	// its standard error goes. Empty means standard input and output.
	Socket        string
	ConnectWithin time.Duration

	// Goroutines makes Process.Input and Output, for goroutines, in place of In and Out, for
	// tasks.
	Goroutines bool

	// Descriptors makes Process.Descriptors. The process receives from DescriptorSocket.
	Descriptors bool
}

// ReadBuffer is the size of the buffer in front of a process's output: that of a pipe on Linux.
const ReadBuffer = 64 << 10

// Process is a worker process. It belongs to the scope of Start.
type Process struct {
	*proc.Process
	In  *stream.Conn  // Stdin, or the connection
	Out *bufio.Reader // reads Stdout, or the connection

	// Pipes to standard input and from standard output, with Config.Goroutines. Any goroutine.
	Input, Output *os.File

	Descriptors *Descriptors // nil without Config.Descriptors

	socket *socket // nil for standard input and output
}

// Start starts a worker process. Tasks of n reap it, copy its standard error, and wait for its
// connection; see WaitConnected. With a limit of memory, a shell sets the limit and then
// becomes the program.
func Start(ctx context.Context, n *spindle.Nursery, c Config) (*Process, error) {
	p := &Process{}
	if c.Socket != "" {
		listener, err := stream.Listen(ctx, "unix", c.Socket)
		if err != nil {
			return nil, err
		}
		p.socket = &socket{listener: listener}
	}
	if err := p.start(ctx, c); err != nil {
		if p.socket != nil {
			p.socket.end(nil)
		}
		return nil, err
	}
	if p.socket != nil {
		n.Go(func(ctx context.Context) error { return p.socket.accept(ctx, p, c.ConnectWithin) })
	} else if !c.Goroutines {
		p.In, p.Out = p.Stdin, bufio.NewReaderSize(p.Stdout, ReadBuffer)
	}
	n.Go(func(ctx context.Context) error {
		_ = p.Wait(ctx)
		if p.State() != nil {
			_ = killOrphans(p.Process)
		}
		if p.socket != nil {
			_ = p.socket.listener.Close() // it cannot connect any more
		}
		return nil
	})
	copyOutput(n, c.Stderr, p.Stderr)
	if p.socket != nil {
		copyOutput(n, c.Stderr, p.Stdout)
	}
	return p, nil
}

// start starts the process, with its ends of the pipes and of the socket for descriptors.
func (p *Process) start(ctx context.Context, c Config) (err error) {
	cmd := command(c)
	if c.Goroutines {
		stdin, stdout, err := p.makePipes()
		if err != nil {
			return err
		}
		defer stdin.Close()
		defer stdout.Close()
		defer func() {
			if p.Process == nil {
				p.closePipes()
			}
		}()
		cmd.Stdin, cmd.Stdout = stdin, stdout
	}
	if c.Descriptors {
		descriptors, end, err := newDescriptors()
		if err != nil {
			return err
		}
		defer end.Close()
		defer func() {
			if p.Process == nil {
				descriptors.close()
			}
		}()
		p.Descriptors, cmd.ExtraFiles = descriptors, []*os.File{end}
	}
	p.Process, err = cmd.Start(ctx)
	return err
}

// command returns the command of a process.
func command(c Config) *proc.Cmd {
	args := c.Command
	if c.MaxMemory > 0 {
		limit := strconv.FormatInt((c.MaxMemory+1023)/1024, 10)
		args = append([]string{"/bin/sh", "-c", `ulimit -v "$0" && exec "$@"`, limit}, args...)
	}
	cmd := proc.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = c.Dir, c.Env, c.Stderr
	if _, file := c.Stderr.(*os.File); c.Stderr != nil && !file {
		cmd.Stderr = proc.Pipe // copied by copyOutput, because Wait would wait for the copying
	}
	if c.Socket != "" {
		cmd.Stdout = cmd.Stderr
	} else {
		cmd.Stdin, cmd.Stdout = proc.Pipe, proc.Pipe
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = killGroup
	cmd.Grace = -1
	return cmd
}

// copyOutput copies the output of a process, unless from is nil, until the process is ended.
func copyOutput(n *spindle.Nursery, to io.Writer, from *stream.Conn) {
	if from == nil {
		return
	}
	n.Go(func(context.Context) error {
		_, _ = io.Copy(to, from)
		_ = from.Close() // fails if the process was ended
		return nil
	})
}

// KillGroup kills the process with its group. It does nothing if the process has exited.
func (p *Process) KillGroup() { _ = killGroup(p.Process) } // fails if nothing of the group is left

// End kills the process with its group, and closes its pipes and its connection.
func (p *Process) End() {
	p.KillGroup()
	_ = p.Close()
	if p.Input != nil {
		p.closePipes()
	}
	if p.socket != nil {
		p.socket.end(p.In)
	}
	if p.Descriptors != nil {
		p.Descriptors.close()
	}
}

// killOrphans kills what is left of the group of a process that has just exited. Later its
// number may be that of others.
func killOrphans(p *proc.Process) error { return syscall.Kill(-p.Pid(), syscall.SIGKILL) }

// killGroup kills a process with its group. After the process was reaped, its number may be
// that of others, and nothing is killed.
func killGroup(p *proc.Process) error {
	if p.State() != nil {
		return nil
	}
	return syscall.Kill(-p.Pid(), syscall.SIGKILL)
}
