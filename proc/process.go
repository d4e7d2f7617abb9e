package proc

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// Process is a child process. Cmd.Start makes one.
type Process struct {
	// Stdin, Stdout and Stderr are the other ends of the child's pipes, where
	// its Cmd asked for one by Pipe, and nil elsewhere. They stay open when the
	// process has ended, so that what it wrote can be read; Close closes them,
	// and so does the end of the scope that the process belongs to.
	Stdin          *stream.Conn
	Stdout, Stderr *stream.Conn

	cmd   Cmd
	l     *loop.Loop
	child *os.Process
	state atomic.Pointer[os.ProcessState] // set when it has ended

	// Loop goroutine only.
	waits    waiting           // for the end of the child
	exited   spindle.Lot       // who waits for that: supervise
	waiters  spindle.Lot       // who waits for all of it
	over     bool              // nothing is left of it
	canceled bool              // it was asked to end
	gaveUp   bool              // it was killed, or is not wanted any more
	failure  error             // why its end is not known
	copyErr  error             // the first of the copying
	pipes    [3]*stream.Conn   // our ends
	copies   [3]*spindle.Scope // of the tasks that copy, while they do
	grace    loop.Timer
	unbind   func() bool // from the scope it belongs to
}

// begin takes a child over that has just been started.
func (p *Process) begin(ctx context.Context, child *os.Process) {
	p.child = child
	stationOf(p.l).children[p] = true
	p.show()
	p.waits.begin(p)
	p.unbind = p.l.Kernel().AfterFunc(ctx, func() {
		_ = p.l.PostWith(loop.DropAtClose, p.cancel) // LoopClosing ends the process otherwise
	})
	name := "process " + filepath.Base(p.cmd.Path)
	spindle.Background(ctx).GoWith(spindle.TaskOptions{Name: name, Eager: true}, p.supervise)
}

// show gives the user those pipes that the Cmd asked for.
func (p *Process) show() {
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

// Pid is the number of the process.
func (p *Process) Pid() int { return p.child.Pid }

// Signal sends a signal to the process. If that has ended, it fails with
// os.ErrProcessDone.
func (p *Process) Signal(sig os.Signal) error { return p.child.Signal(sig) }

// Kill ends the process at once. If that has ended, it fails with
// os.ErrProcessDone.
func (p *Process) Kill() error { return p.child.Kill() }

// State tells how the process ended; nil if it has not.
func (p *Process) State() *os.ProcessState { return p.state.Load() }

// Wait waits until the process has ended, and all that a task copies for it was
// copied. If the process fails, the error is an *exec.ExitError; if it does not,
// that of the copying. A Wait that is cancelled does nothing to the process. Any
// number of tasks may wait, at any time.
//
// A process that writes into a Pipe waits for somebody to read. So whoever reads
// neither Stdout nor Stderr may wait for ever.
func (p *Process) Wait(ctx context.Context) error {
	if err := spindle.Checkpoint(ctx); err != nil {
		return err
	}
	for !p.over {
		if err := p.waiters.Wait(ctx, "Process.Wait"); err != nil {
			return err
		}
	}
	state := p.state.Load()
	switch {
	case p.failure != nil:
		return p.failure
	case !state.Success():
		return &exec.ExitError{ProcessState: state}
	}
	return p.copyErr
}

// Close kills the process if it still runs, and closes its pipes. It does not wait;
// Wait does. After it, the process needs no more care. To be deferred.
func (p *Process) Close() error {
	if p.l.Foreign() {
		panic("proc: Process.Close called from a goroutine that is not its loop's; Kill may be")
	}
	p.unbind()
	p.giveUp()
	return nil
}

// cancel ends the process in order: its scope was cancelled, or has ended.
func (p *Process) cancel() {
	if p.over {
		p.closePipes()
		return
	}
	if p.canceled || p.gaveUp {
		return
	}
	p.canceled = true
	p.grace = p.l.CallLater(p.cmd.grace(), p.giveUp)
	if p.state.Load() != nil { // who inherited its pipes goes on
		return
	}
	if p.cmd.Cancel != nil {
		p.cmd.Cancel(p)
		return
	}
	p.Signal(syscall.SIGTERM)
}

// giveUp is the end of patience.
func (p *Process) giveUp() {
	if p.State() == nil {
		p.Kill()
	}
	p.gaveUp = true
	p.grace.Cancel()
	for _, s := range p.copies {
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

// ended is called when the child has: it was waited for.
func (p *Process) ended(state *os.ProcessState, err error) {
	if p.over {
		return
	}
	p.state.Store(state)
	p.failure = err
	p.exited.Wake(1)
}

// supervise is the task that sees a process through. It heeds no cancellation: a
// child has to be waited for.
func (p *Process) supervise(ctx context.Context) error {
	defer p.finish()
	return spindle.Shield(ctx, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			p.copyAll(n)
			for p.State() == nil && p.failure == nil {
				if err := p.exited.Wait(ctx, "its end"); err != nil {
					return err
				}
			}
			if feeding := p.copies[0]; feeding != nil {
				feeding.Cancel(nil) // nobody reads
			}
			return nil
		})
	})
}

// finish is the end of supervise. If that was made to exit, or a copier's panic
// has ended it, the child is abandoned.
func (p *Process) finish() {
	if p.State() == nil && p.failure == nil {
		p.abandon()
	}
	p.over = true
	p.grace.Cancel()
	delete(stationOf(p.l).children, p)
	if p.canceled || p.gaveUp {
		p.closePipes()
	}
	if p.Stdin == nil && p.Stdout == nil && p.Stderr == nil {
		p.unbind() // nothing is left that its scope could end
	}
	p.waiters.Wake(1 << 30)
}

// abandon kills the child, which nobody will see the end of.
func (p *Process) abandon() {
	p.over = true
	p.failure = ErrAbandoned
	p.gaveUp = true
	p.Kill()
	p.waits.leave(p.l, p.child)
	p.grace.Cancel()
	p.unbind()
}
