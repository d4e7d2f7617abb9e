// Package proc has child processes and signals for tasks: the pipes of a child are
// Conns of package stream, its end is something to wait for, and it never outlives
// the scope it was started in.
//
//	out, err := proc.Command("git", "log", "-1").Output(ctx)
//
//	cmd := proc.Command("sort")
//	cmd.Stdin, cmd.Stdout = proc.Pipe, proc.Pipe
//	p, err := cmd.Start(ctx)
//	if err != nil {
//		return err
//	}
//	defer p.Close()
//	fmt.Fprintln(p.Stdin, "b\na")
//	p.Stdin.Close()
//	sorted, err := io.ReadAll(p.Stdout)
//	…
//	return p.Wait(ctx)
//
// # The life of a child
//
// A process belongs to the scope that Start was given. When that is cancelled, or
// left, the process is asked to end (SIGTERM, or what Cmd.Cancel does), and killed
// if it has not after Cmd.Grace; a run does not end before its children have. Only
// the process itself is signalled, not those that it has started.
//
// However a child ends, it is waited for by the runtime, and no zombie stays
// behind. On Linux the loop watches a pidfd; elsewhere a goroutine waits for each
// child.
//
// # Which goroutine
//
// Everything here is for tasks of one loop, and OnSignal for its callbacks too.
// Process.Signal, Kill, Pid and State may be called from any goroutine.
//
// In a simulated run there are no processes and no signals: every call fails with
// an error that is errors.ErrUnsupported.
package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

var (
	// ErrTooMuchOutput says that a child wrote more than Cmd.MaxOutput.
	ErrTooMuchOutput = errors.New("proc: too much output")
	// ErrAbandoned says that a run was torn down before it could see how a child
	// ended. The child was killed.
	ErrAbandoned = errors.New("proc: the run ended before the process, which was killed")
	// ErrClosed says that this side has closed what it now uses.
	ErrClosed = errors.New("proc: closed")
)

// Cmd is a program to run. Its fields mean what they do in os/exec, and it may be
// used again, for the next process.
type Cmd struct {
	// Path is the program. A name without a slash is looked up in the
	// directories of $PATH when the process is started.
	Path string

	// Args are the arguments, beginning with the program's own name. Empty
	// means only that.
	Args []string

	// Env is the environment, as "key=value"; of several with one key the last
	// counts. Nil means that of this process.
	Env []string

	// Dir is the directory to run in; "" means that of this process.
	Dir string

	// Stdin is what the process reads. Nil is the null device; an *os.File is
	// handed to the process; Pipe makes Process.Stdin. Anything else is copied
	// to the process by a task, until it ends or the process has: it is read on
	// the loop, and so must not block. What tasks wait for, like a stream.Conn,
	// does not.
	Stdin io.Reader

	// Stdout and Stderr are where the process writes to, each like Stdin: what
	// it writes is copied by a task. If both are the same writer, the process
	// has one descriptor for both.
	Stdout, Stderr io.Writer

	// ExtraFiles are open files that the process inherits, from descriptor 3 on.
	ExtraFiles []*os.File

	// SysProcAttr are attributes of the system. Nil means none.
	SysProcAttr *syscall.SysProcAttr

	// Cancel asks the process to end when its scope is cancelled or left. It is
	// called on the loop and must not wait. Nil sends SIGTERM.
	Cancel func(p *Process) error

	// Grace is how long after that the process may take, and who has inherited
	// its pipes, before it is killed and the pipes are closed. Zero means 3
	// seconds, less than a run's own Grace; negative means none.
	Grace time.Duration

	// MaxOutput is how many bytes Output and CombinedOutput take: a process
	// that writes more is killed. Zero means 16 MiB.
	MaxOutput int

	noHandle bool // for tests: as on systems without pidfds
}

// Command is a program and its arguments.
func Command(name string, args ...string) *Cmd {
	return &Cmd{Path: name, Args: append([]string{name}, args...)}
}

// Pipe as a Cmd's Stdin, Stdout or Stderr asks for a pipe to the process, which is
// then the field of that name of Process.
var Pipe pipe

type pipe struct{}

var errPipe = errors.New("proc: Pipe is no stream; see Process.Stdin, Stdout and Stderr")

func (pipe) Read([]byte) (int, error)  { return 0, errPipe }
func (pipe) Write([]byte) (int, error) { return 0, errPipe }

// defaultGrace is below a run's, so that a child that does not heed SIGTERM is
// killed, and seen to end, in a run that is cancelled as a whole.
const defaultGrace = 3 * time.Second

func (c *Cmd) grace() time.Duration {
	if c.Grace == 0 {
		return defaultGrace
	}
	return c.Grace
}

// Run starts the process and waits for its end, and for all of its output to be
// copied. If the process fails, the error is an *exec.ExitError.
//
// If ctx is cancelled, Run ends the process as its Cmd says, waits for that, and
// returns the cancellation.
func (c *Cmd) Run(ctx context.Context) error {
	if c.Stdin == Pipe || c.Stdout == Pipe || c.Stderr == Pipe {
		panic("proc: Run with a Pipe, which nobody could use; see Start")
	}
	p, err := c.Start(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	err = spindle.Shield(ctx, p.Wait)
	if p.canceled {
		if canceled := spindle.Checkpoint(ctx); canceled != nil {
			return canceled
		}
	}
	return err
}

// refuse is the error where there is no real system.
func refuse(l *loop.Loop, what string) error {
	if l.Kernel().Real() {
		return nil
	}
	return fmt.Errorf("proc: no %s where there is no real system below (a simulated run): %w", what, errors.ErrUnsupported)
}
