// Package proc runs child processes and receives signals in tasks. The pipes of a
// child are Conns of package stream, a task can wait for its exit, and no child
// outlives the scope it was started in.
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
// # The lifetime of a child
//
// A process belongs to the scope of the context given to Start. When that scope is
// cancelled or ends, the process gets SIGTERM, or Cmd.Cancel is called. If it has
// not exited after Cmd.Grace, it is killed. A deferred Process.Close does not shorten
// that time. A run does not end before its children have exited. Only the process
// itself is signalled, not its own children.
//
// A task in the run's root nursery follows each child. It does not count against a limit
// that spindle.RootNursery(ctx) has. When the run is cancelled, its Options.Grace begins
// for that task and for Cmd.Run when Cmd.Grace is over, so the run does not cut it.
//
// However a child ends, the package reaps it, so that no zombie remains. On Linux
// the loop watches a pidfd; on other systems a goroutine waits for each child.
//
// # Goroutines
//
// The package is for tasks of one loop; OnSignal is for its callbacks, too. Any
// goroutine may call Process.Signal, Kill, Pid and State.
//
// A simulated run has no processes and no signals: every call fails with an error
// that wraps errors.ErrUnsupported.
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
	errTooMuchOutput = errors.New("proc: too much output")
	errAbandoned     = errors.New("proc: the run ended before the process, which was killed")
)

// Cmd describes a program to run. Its fields mean what they mean in os/exec. A Cmd
// may be used again, for another process.
type Cmd struct {
	// Path is the program. A name without a slash is looked up in the directories of
	// $PATH when the process is started.
	Path string

	// Args are the arguments, starting with the program's own name. Empty means only
	// that name.
	Args []string

	// Env is the environment, as "key=value". If a key occurs several times, the
	// last entry counts. Nil means the environment of this process.
	Env []string

	// Dir is the working directory. Empty means that of this process.
	Dir string

	// Stdin is the standard input. Nil means the null device. An *os.File is passed
	// to the process. Pipe creates Process.Stdin. A task copies from any other
	// reader to the process, until the reader or the process ends. That task reads
	// on the loop, so the reader must not block; a stream.Conn and other readers
	// that suspend the task do not.
	Stdin io.Reader

	// Stdout and Stderr are the standard output and standard error, handled like
	// Stdin: a task copies the output to a writer. If both are the same writer, the
	// process has one descriptor for both.
	Stdout, Stderr io.Writer

	// ExtraFiles are open files that the process inherits, starting at descriptor 3.
	ExtraFiles []*os.File

	// SysProcAttr holds system-specific attributes. Nil means none.
	SysProcAttr *syscall.SysProcAttr

	// Cancel asks the process to exit when its scope is cancelled or ends. It runs
	// on the loop and must not wait. Nil sends SIGTERM.
	Cancel func(p *Process) error

	// Grace is how long the process may then continue, and any process that has
	// inherited its pipes. After that, the process is killed and the pipes are
	// closed. Zero means 3 seconds; negative means no grace period. The run waits that
	// long, whatever its own Grace is.
	Grace time.Duration

	// MaxOutput limits the number of bytes that Output and CombinedOutput return. A
	// process that writes more is killed. A value below 1 means 16 MiB.
	MaxOutput int

	noPidfd bool // for tests: as on systems without pidfds
}

// Command returns a Cmd for a program and its arguments.
func Command(name string, args ...string) *Cmd {
	return &Cmd{Path: name, Args: append([]string{name}, args...)}
}

// Pipe, as a Cmd's Stdin, Stdout or Stderr, requests a pipe to the process. The
// field of that name in Process is its other end.
var Pipe pipe

type pipe struct{}

var errPipe = errors.New("proc: Pipe cannot be read or written; use Process.Stdin, Stdout and Stderr")

func (pipe) Read([]byte) (int, error)  { return 0, errPipe }
func (pipe) Write([]byte) (int, error) { return 0, errPipe }

// defaultGrace is Cmd.Grace if it is not set.
const defaultGrace = 3 * time.Second

func (c *Cmd) grace() time.Duration {
	if c.Grace == 0 {
		return defaultGrace
	}
	return c.Grace
}

// Run starts the process and waits until it has exited and all its output is copied.
// If the process fails, the error is an *exec.ExitError.
//
// If ctx is cancelled, Run ends the process as the Cmd says, waits for its exit, and
// returns the cancellation.
func (c *Cmd) Run(ctx context.Context) error {
	if c.Stdin == Pipe || c.Stdout == Pipe || c.Stderr == Pipe {
		panic("proc: Run with a Pipe, which the caller cannot use; call Start")
	}
	p, err := c.Start(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	err = p.shield(ctx, p.Wait)
	if p.canceled {
		if canceled := spindle.Checkpoint(ctx); canceled != nil {
			return canceled
		}
	}
	return err
}

// checkSupported returns an error in a simulated run.
func checkSupported(l *loop.Loop, what string) error {
	if l.Internal().Kernel().Real() {
		return nil
	}
	return fmt.Errorf("proc: no %s in a simulated run: %w", what, errors.ErrUnsupported)
}
