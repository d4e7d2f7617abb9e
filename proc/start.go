package proc

import (
	"context"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// Start starts the process and returns when it runs its program. The process
// belongs to the scope that ctx is; see the package comment. It fails with
// exec.ErrNotFound if there is no such program, and otherwise like os/exec. If ctx
// is cancelled when the process has begun, it is there and is being ended.
func (c *Cmd) Start(ctx context.Context) (*Process, error) {
	l := spindle.LoopOf(ctx)
	if err := refuse(l, "processes"); err != nil {
		return nil, err
	}
	p := &Process{cmd: *c, l: l}
	b := &birth{l: l, cmd: &p.cmd}
	defer b.leave()
	child, err := b.wait(ctx)
	if err != nil {
		return nil, err
	}
	if err := spindle.Shield(ctx, func(ctx context.Context) error { return p.connect(ctx, b.ours) }); err != nil {
		p.closePipes()
		return nil, err
	}
	b.child = nil // it is p's now
	p.begin(ctx, child)
	return p, nil
}

// connect makes Conns of our ends of the pipes.
func (p *Process) connect(ctx context.Context, ours [3]*os.File) (err error) {
	for i, f := range ours {
		if f == nil {
			continue
		}
		if p.pipes[i], err = stream.Wrap(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// birth is a process being started. That is for a worker: to fork waits for a
// moment, and so do the search for the program and, on some systems, the making of
// pipes while somebody else forks.
type birth struct {
	l   *loop.Loop
	cmd *Cmd

	// The worker's until it is done, then Start's.
	ours, theirs [3]*os.File // ends of pipes; nil where there is none

	mu    sync.Mutex
	left  bool        // nobody waits for the child any more
	done  bool        // the worker is
	child *os.Process // until somebody has taken it over
}

// atOnce is how many children of a loop are being started at once. Go lets one
// fork at a time, and while it does a processor is taken: with more, the loop would
// wait for its turn behind all of them.
const atOnce = 2

// wait has a worker start the child.
func (b *birth) wait(ctx context.Context) (*os.Process, error) {
	st := stationOf(b.l)
	if err := spindle.Checkpoint(ctx); err != nil {
		return nil, err
	}
	if st.starting == atOnce {
		if err := st.queue.Wait(ctx, "Cmd.Start"); err != nil { // its place is handed over
			return nil, err
		}
	} else {
		st.starting++
	}
	defer func() {
		if st.queue.Wake(1) == 0 {
			st.starting--
		}
	}()
	return spindle.Blocking(ctx, b.begin)
}

// begin starts the child. It is for a worker.
func (b *birth) begin() (*os.Process, error) {
	child, err := b.fork()
	closeAll(b.theirs)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.child, b.done = child, true
	if b.left { // the task was made to exit meanwhile
		b.clear()
		return nil, ErrAbandoned
	}
	return child, err
}

// leave is the end of Start, however that came.
func (b *birth) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = true
	if b.done {
		b.clear()
	}
}

// clear removes what nobody has taken over. A child is known to nobody else.
func (b *birth) clear() {
	closeAll(b.ours)
	if b.child != nil {
		bury(b.l, b.child)
	}
}

// bury kills a child that nobody will wait for, and has a goroutine do that.
func bury(l *loop.Loop, child *os.Process) {
	child.Kill()
	l.Kernel().Start(func() { child.Wait() })
}

func closeAll(files [3]*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// fork makes the pipes and starts the child, by an exec.Cmd that is given files
// alone: so it copies nothing, and starts no goroutine.
func (b *birth) fork() (*os.Process, error) {
	c := b.cmd
	x := exec.Command(c.Path)
	if len(c.Args) > 0 {
		x.Args = c.Args
	}
	x.Env, x.Dir, x.ExtraFiles, x.SysProcAttr = c.Env, c.Dir, c.ExtraFiles, c.SysProcAttr
	in, err := b.fileFor(0, c.Stdin)
	if err != nil {
		return nil, err
	}
	if in != nil { // an interface with a nil *os.File is not nil
		x.Stdin = in
	}
	out, err := b.fileFor(1, c.Stdout)
	if err != nil {
		return nil, err
	}
	if out != nil {
		x.Stdout = out
	}
	errs := out
	if !same(c.Stdout, c.Stderr) {
		if errs, err = b.fileFor(2, c.Stderr); err != nil {
			return nil, err
		}
	}
	if errs != nil {
		x.Stderr = errs
	}
	err = x.Start()
	return x.Process, err
}

// fileFor is the file that the child gets for what its Cmd says; nil means the null
// device.
func (b *birth) fileFor(which int, what any) (*os.File, error) {
	if isNil(what) {
		return nil, nil
	}
	if f, ok := what.(*os.File); ok {
		return f, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if which == 0 {
		b.theirs[which], b.ours[which] = r, w
	} else {
		b.theirs[which], b.ours[which] = w, r
	}
	return b.theirs[which], nil
}

func isNil(what any) bool {
	f, ok := what.(*os.File)
	return what == nil || ok && f == nil
}

// same tells whether two writers are one. Those that cannot be compared are not.
func same(a, b io.Writer) bool {
	if isNil(a) || a == Pipe {
		return false
	}
	defer func() { recover() }()
	return a == b
}
