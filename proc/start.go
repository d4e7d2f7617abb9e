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

// Start starts the process and returns when the program runs. The process belongs to
// the scope of ctx; see the package comment. Start fails with exec.ErrNotFound if
// there is no such program, and otherwise like os/exec. If ctx is cancelled after
// the process was started, Start returns it while it is being ended.
func (c *Cmd) Start(ctx context.Context) (*Process, error) {
	l := spindle.LoopOf(ctx)
	if err := checkSupported(l, "processes"); err != nil {
		return nil, err
	}
	p := &Process{cmd: *c, l: l}
	s := &starter{l: l, cmd: &p.cmd}
	defer s.end()
	child, err := s.run(ctx)
	if err != nil {
		return nil, err
	}
	if err := spindle.Shield(ctx, func(ctx context.Context) error { return p.connect(ctx, s.parentEnds) }); err != nil {
		p.closePipes()
		return nil, err
	}
	s.child = nil // p owns it now
	p.adopt(ctx, child)
	return p, nil
}

// connect wraps our ends of the pipes in Conns.
func (p *Process) connect(ctx context.Context, parentEnds [3]*os.File) (err error) {
	for i, f := range parentEnds {
		if f == nil {
			continue
		}
		if p.pipes[i], err = stream.Wrap(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// starter starts one process. A worker does that, because fork blocks for a moment,
// and so do the search for the program and, on some systems, creating pipes while
// another goroutine forks.
type starter struct {
	l   *loop.Loop
	cmd *Cmd

	// Owned by the worker until started is set, then by Start.
	parentEnds, childEnds [3]*os.File // nil where there is no pipe

	mu        sync.Mutex
	abandoned bool        // Start has returned
	started   bool        // the worker is done
	child     *os.Process // until a Process owns it
}

// maxConcurrentStarts limits how many children of a loop are being started at once.
// Go forks one at a time, and each fork occupies a processor. With more, the loop
// would have to wait behind all of them.
const maxConcurrentStarts = 2

// run starts the child on a worker and waits for it.
func (s *starter) run(ctx context.Context) (*os.Process, error) {
	st := loopStateOf(s.l)
	if err := spindle.Checkpoint(ctx); err != nil {
		return nil, err
	}
	if st.starting == maxConcurrentStarts {
		if err := st.queue.Wait(ctx, "Cmd.Start"); err != nil { // the slot is handed over
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
	return spindle.Blocking(ctx, s.start)
}

// start starts the child. It runs on a worker.
func (s *starter) start() (*os.Process, error) {
	child, err := s.fork()
	closeAll(s.childEnds)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.child, s.started = child, true
	if s.abandoned { // the task was made to exit meanwhile
		s.cleanUp()
		return nil, errAbandoned
	}
	return child, err
}

// end runs when Start returns or is made to exit.
func (s *starter) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandoned = true
	if s.started {
		s.cleanUp()
	}
}

// cleanUp closes the pipes and kills the child if no Process owns it.
func (s *starter) cleanUp() {
	closeAll(s.parentEnds)
	if s.child != nil {
		killAndReap(s.l, s.child)
	}
}

// killAndReap kills a child without an owner and lets a goroutine reap it.
func killAndReap(l *loop.Loop, child *os.Process) {
	child.Kill()
	l.Internal().Kernel().Start(func() { child.Wait() })
}

func closeAll(files [3]*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// fork creates the pipes and starts the child. Its exec.Cmd has only files, so it
// copies nothing and starts no goroutine.
func (s *starter) fork() (*os.Process, error) {
	c := s.cmd
	x := exec.Command(c.Path)
	if len(c.Args) > 0 {
		x.Args = c.Args
	}
	x.Env, x.Dir, x.ExtraFiles, x.SysProcAttr = c.Env, c.Dir, c.ExtraFiles, c.SysProcAttr
	in, err := s.fileFor(0, c.Stdin)
	if err != nil {
		return nil, err
	}
	if in != nil { // a nil *os.File in an interface is not nil
		x.Stdin = in
	}
	out, err := s.fileFor(1, c.Stdout)
	if err != nil {
		return nil, err
	}
	if out != nil {
		x.Stdout = out
	}
	errs := out
	if !sameWriter(c.Stdout, c.Stderr) {
		if errs, err = s.fileFor(2, c.Stderr); err != nil {
			return nil, err
		}
	}
	if errs != nil {
		x.Stderr = errs
	}
	err = x.Start()
	return x.Process, err
}

// fileFor returns the file that the child gets for a field of its Cmd. Nil means the
// null device.
func (s *starter) fileFor(which int, what any) (*os.File, error) {
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
		s.childEnds[which], s.parentEnds[which] = r, w
	} else {
		s.childEnds[which], s.parentEnds[which] = w, r
	}
	return s.childEnds[which], nil
}

func isNil(what any) bool {
	f, ok := what.(*os.File)
	return what == nil || ok && f == nil
}

// sameWriter reports whether a and b are the same writer. Writers that cannot be
// compared are not.
func sameWriter(a, b io.Writer) bool {
	if isNil(a) || a == Pipe {
		return false
	}
	defer func() { recover() }()
	return a == b
}
