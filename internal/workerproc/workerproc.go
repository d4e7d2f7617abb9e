// Package workerproc runs worker processes in tasks. A worker leads a process group of its
// own, reads requests from its standard input, and answers on its standard output.
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
)

// Config describes a worker process.
type Config struct {
	Command   []string
	Dir       string
	Env       []string
	Stderr    io.Writer // nil means the null device
	MaxMemory int64     // of its address space in bytes; zero means no limit
}

// Process is a worker process. It belongs to the scope of Start.
type Process struct {
	*proc.Process
	Out *bufio.Reader // reads Stdout
}

// Start starts a worker process. Tasks of n reap it and copy its standard error. With a
// limit of memory, a shell sets the limit and then becomes the program.
func Start(ctx context.Context, n *spindle.Nursery, c Config) (*Process, error) {
	args := c.Command
	if c.MaxMemory > 0 {
		limit := strconv.FormatInt((c.MaxMemory+1023)/1024, 10)
		args = append([]string{"/bin/sh", "-c", `ulimit -v "$0" && exec "$@"`, limit}, args...)
	}
	cmd := proc.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = c.Dir, c.Env, c.Stderr
	cmd.Stdin, cmd.Stdout = proc.Pipe, proc.Pipe
	if _, file := c.Stderr.(*os.File); c.Stderr != nil && !file {
		cmd.Stderr = proc.Pipe // copied here, because Wait would wait for the copying
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = killGroup
	cmd.Grace = -1
	p, err := cmd.Start(ctx)
	if err != nil {
		return nil, err
	}
	n.Go(func(ctx context.Context) error {
		_ = p.Wait(ctx)
		if p.State() != nil {
			_ = killOrphans(p)
		}
		return nil
	})
	if p.Stderr != nil {
		n.Go(func(context.Context) error {
			_, _ = io.Copy(c.Stderr, p.Stderr) // ends when the process is ended
			return p.Stderr.Close()
		})
	}
	return &Process{p, bufio.NewReader(p.Stdout)}, nil
}

// KillGroup kills the process with its group. It does nothing if the process has exited.
func (p *Process) KillGroup() { _ = killGroup(p.Process) } // fails if nothing of the group is left

// End kills the process with its group, and closes its pipes.
func (p *Process) End() {
	p.KillGroup()
	_ = p.Close()
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

// Backoff computes the pauses between attempts that fail: First, and then twice the pause
// before, up to Most.
type Backoff struct {
	First, Most time.Duration
	failures    int
}

// Next returns the pause after another failure.
func (b *Backoff) Next() time.Duration {
	pause := b.Most
	if b.failures < 30 {
		pause = min(pause, b.First<<b.failures)
	}
	b.failures++
	return pause
}

// Reset forgets the failures.
func (b *Backoff) Reset() { b.failures = 0 }
