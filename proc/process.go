package proc

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// Process is a child process, created by Cmd.Start.
type Process struct {
	// Stdin, Stdout and Stderr are our ends of the child's pipes, where its Cmd has
	// Pipe, and nil otherwise. They stay open after the process has exited, so that
	// its output can be read. Close closes them, and so does the end of the scope
	// that the process belongs to.
	Stdin          *stream.Conn
	Stdout, Stderr *stream.Conn

	cmd   Cmd
	l     *loop.Loop
	child *os.Process
	state atomic.Pointer[os.ProcessState] // set when it has exited

	// Loop goroutine only.
	exitWatch  exitWatch         // detects the child's exit
	exited     spindle.Lot       // supervise, waiting for the exit
	waiters    spindle.Lot       // tasks in Wait
	finished   bool              // it has exited and all copying is done
	canceled   bool              // it was told to exit
	terminated bool              // terminate or abandon was called
	waitErr    error             // why its exit state is unknown
	copyErr    error             // first error of a copying task
	endsBy     time.Time         // when it is killed at the latest; zero if that is not known
	shields    []*spindle.Scope  // for which the run waits until endsBy
	pipes      [3]*stream.Conn   // our ends
	copyScopes [3]*spindle.Scope // of the running copying tasks
	grace      loop.Timer
	unbind     func() bool // from the scope it belongs to
}

// adopt makes p the owner of a child that has just been started.
func (p *Process) adopt(ctx context.Context, child *os.Process) {
	p.child = child
	loopStateOf(p.l).children[p] = true
	p.exposePipes()
	p.exitWatch.start(p)
	p.unbind = p.l.Internal().AfterFunc(ctx, p.cancel) // if the loop closes first, LoopClosing ends the process
	name := "process " + filepath.Base(p.cmd.Path)
	spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Name: name, Eager: true, Values: coro.Helper{Context: ctx}}, p.supervise)
}

// exposePipes sets the exported fields for the pipes that the Cmd requested.
func (p *Process) exposePipes() {
	c := &p.cmd
	if c.Stdin == Pipe {
		p.Stdin = p.pipes[0]
	}
	if c.Stdout == Pipe {
		p.Stdout = p.pipes[1]
	}
	if c.Stderr == Pipe {
		p.Stderr = p.pipes[2]
	}
}

// Pid returns the process ID.
func (p *Process) Pid() int { return p.child.Pid }

// Signal sends a signal to the process. If the process has exited, Signal fails with
// os.ErrProcessDone.
func (p *Process) Signal(sig os.Signal) error { return p.child.Signal(sig) }

// Kill kills the process. If the process has exited, Kill fails with
// os.ErrProcessDone.
func (p *Process) Kill() error { return p.child.Kill() }

// State returns the exit state of the process, or nil if it has not exited.
func (p *Process) State() *os.ProcessState { return p.state.Load() }

// Wait waits until the process has exited and all its copying tasks are done. If the
// process fails, the error is an *exec.ExitError; otherwise it is the first error of
// a copying task, if any. Cancelling a Wait does not affect the process. Any number
// of tasks may wait, at any time.
//
// A process that writes to a Pipe blocks until its output is read. So Wait may wait
// forever if no task reads Stdout or Stderr.
func (p *Process) Wait(ctx context.Context) error {
	if err := spindle.Checkpoint(ctx); err != nil {
		return err
	}
	for !p.finished {
		if err := p.waiters.Wait(ctx, "Process.Wait"); err != nil {
			return err
		}
	}
	state := p.state.Load()
	switch {
	case p.waitErr != nil:
		return p.waitErr
	case !state.Success():
		return &exec.ExitError{ProcessState: state}
	}
	return p.copyErr
}

// Close kills the process if it is still running, and closes its pipes. It does not
// wait; Wait does. Calling Wait after Close is optional. Close is meant to be
// deferred.
//
// If the scope of the process was cancelled or has ended, Close does nothing: the
// process and its pipes keep their grace period. Kill ends the process at once.
func (p *Process) Close() error {
	if p.l.Internal().Foreign() {
		panic("proc: Process.Close called from a goroutine that is not its loop's; call Kill instead")
	}
	if ending := !p.unbind(); ending && !p.finished && !p.terminated {
		return nil // cancel has begun the grace period, or is about to
	}
	p.terminate()
	return nil
}

// cancel asks the process to exit, because its scope was cancelled or has ended.
func (p *Process) cancel() {
	if p.finished {
		p.closePipes()
		return
	}
	if p.canceled || p.terminated {
		return
	}
	p.canceled = true
	p.endBy(p.l.Internal().Kernel().At(p.l.Time()).Add(p.cmd.grace()))
	p.grace = p.l.CallLater(p.cmd.grace(), p.terminate)
	if p.state.Load() != nil { // processes that inherited its pipes are still running
		return
	}
	if p.cmd.Cancel != nil {
		p.cmd.Cancel(p)
		return
	}
	p.Signal(syscall.SIGTERM)
}

// terminate kills the process, cancels its copying tasks and closes its pipes.
func (p *Process) terminate() {
	if p.State() == nil {
		p.Kill()
	}
	p.terminated = true
	p.grace.Cancel()
	for _, s := range p.copyScopes {
		if s != nil {
			s.Cancel(nil)
		}
	}
	p.closePipes()
}

func (p *Process) closePipes() {
	for _, c := range p.pipes {
		if c != nil {
			c.Close()
		}
	}
}

// endBy makes a cancelled run wait for the process until when; see shield.
func (p *Process) endBy(when time.Time) {
	p.endsBy = when
	for _, s := range p.shields {
		s.SetDeadline(when)
	}
}

// shield runs fn without cancellation. If the run is cancelled, its own grace period begins when
// that of the process is over: a shield asks for time by its deadline. The shield inside
// keeps out the end of that time, because the process must still be reaped.
func (p *Process) shield(ctx context.Context, fn func(context.Context) error) error {
	return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
		s.SetShield(true)
		p.shields = append(p.shields, s)
		s.SetDeadline(p.endsBy)
		return spindle.Shield(ctx, fn)
	})
}

// onExit records that the child has exited and was reaped.
func (p *Process) onExit(state *os.ProcessState, err error) {
	if p.finished {
		return
	}
	p.state.Store(state)
	p.waitErr = err
	p.exited.Wake(1)
}

// supervise is the task that follows a process to its end. It ignores cancellation,
// because a child has to be reaped.
func (p *Process) supervise(ctx context.Context) error {
	defer p.finish()
	return p.shield(ctx, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			p.copyAll(n)
			for p.State() == nil && p.waitErr == nil {
				if err := p.exited.Wait(ctx, "its end"); err != nil {
					return err
				}
			}
			if stdin := p.copyScopes[0]; stdin != nil {
				stdin.Cancel(nil) // the child reads no more
			}
			return nil
		})
	})
}

// finish runs when supervise ends. If supervise was made to exit or ended by a panic
// of a copying task, finish abandons the child.
func (p *Process) finish() {
	if p.State() == nil && p.waitErr == nil {
		p.abandon()
	}
	p.finished = true
	p.grace.Cancel()
	delete(loopStateOf(p.l).children, p)
	if p.canceled || p.terminated {
		p.closePipes()
	}
	if p.Stdin == nil && p.Stdout == nil && p.Stderr == nil {
		p.unbind() // the scope has nothing left to end
	}
	p.waiters.Wake(1 << 30)
}

// abandon kills the child and leaves its exit state unknown.
func (p *Process) abandon() {
	p.finished = true
	p.waitErr = errAbandoned
	p.terminated = true
	p.Kill()
	p.exitWatch.detach(p.l, p.child)
	p.grace.Cancel()
	p.unbind()
}
