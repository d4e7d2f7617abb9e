package spindle

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/loop"
)

// RunGroup makes n loops and runs fn on each of them as a task, all at the same time. If n <= 0,
// there is one for each processor that Go may use. RunGroup returns when all functions, and all
// tasks that they started, have ended:
//
//	err := spindle.RunGroup(ctx, 0, func(ctx context.Context, g *loop.Group) error {
//		ln, err := stream.ListenConfig{ReusePort: true}.Listen(ctx, "tcp", ":9000")
//		if err != nil {
//			return err
//		}
//		return stream.Serve(ctx, ln, serve) // each loop has its share of the connections
//	})
//
// Each call of fn is a run of its own, and ends as a Run does. The first run that fails cancels the
// others, and their tasks have Options.Grace to clean up. Several errors are joined. Every loop runs
// until all runs have ended.
//
// Tasks of different loops run in parallel, so they share no state without locks. CallOn calls a
// function on another loop of the group, and a cosync.Inbox passes values on. To find its place in
// the group, fn compares LoopOf with g.Loops. RunGroup runs and closes the group: Group.Run panics
// and Group.Close fails. To end all runs early, cancel ctx. Group.Stop does not do that: it stops the
// first loop, and RunGroup fails only if the run of that loop has not ended.
func RunGroup(ctx context.Context, n int, fn func(ctx context.Context, g *loop.Group) error) error {
	return Options{}.RunGroup(ctx, n, fn)
}

// RunGroup is the function RunGroup with options. It panics if Options.On is set.
func (o Options) RunGroup(ctx context.Context, n int, fn func(ctx context.Context, g *loop.Group) error) error {
	switch sc := scopeOf(ctx); {
	case ctx == nil || fn == nil:
		panic("spindle: RunGroup with a nil context or function")
	case o.On != nil:
		panic("spindle: RunGroup with Options.On; it makes its loops")
	case sc != nil && sc.s.l.Owns():
		panic("spindle: RunGroup called in a task would block the loop of that task; call it on a goroutine")
	}
	g, err := loop.NewGroup(n, o.Loop)
	if err != nil {
		return err
	}
	m := &members{o: o, g: g}
	m.ctx, m.cancel = context.WithCancelCause(ctx)
	defer m.cancel(nil)
	m.left.Store(int32(len(g.Loops())))
	run := make([]func(), len(g.Loops()))
	for i, l := range g.Loops() {
		run[i] = func() { m.run(l, fn) }
	}
	loop.Internal().RunAll(g, run)
	return m.result(g.Close())
}

// members are the runs of a group.
type members struct {
	o      Options
	g      *loop.Group
	ctx    context.Context // ends with the first failure
	cancel context.CancelCauseFunc
	left   atomic.Int32 // runs that have not ended

	mu    sync.Mutex // guards what follows
	errs  []error
	fault *PanicError // the first panic
}

// run runs fn on a loop, and then the loop until all members have ended.
func (m *members) run(l *loop.Loop, fn func(context.Context, *loop.Group) error) {
	r := newRun(m.ctx, l, m.o)
	defer coro.OnGoroutine(func() { r.s.leave(r) })
	r.root.done = l.Stop
	r.start(func(ctx context.Context) error {
		returned := false
		defer func() {
			if !returned {
				m.cancel(errPanicked)
			}
		}()
		err := fn(ctx, m.g)
		switch returned = true; {
		case r.root.fault != nil: // another task has panicked
			m.cancel(errPanicked)
		case err != nil:
			m.cancel(cmp.Or(r.root.firstError(), err)) // err may be the cancellation that a failed task caused
		}
		return err
	}, codeOf(fn))
	unfollow := r.follow(m.ctx)
	err := l.Run(context.Background())
	unfollow()
	_, broken := err.(*loop.OpError) // the kernel fails in each turn from now on: report it once
	if err == nil && r.root.running > 0 {
		err = errStopped
	}
	if err != nil {
		failure := r.failure(err)
		m.failed(failure)
		r.clear(err)
	}
	fault, err := r.end(m.ctx)
	m.panicked(fault)
	m.failed(err)
	if m.left.Add(-1) == 0 {
		for _, l := range m.g.Loops() {
			l.Stop()
		}
	}
	for m.left.Load() > 0 { // other loops may call this one
		err := l.Run(context.Background())
		_, again := err.(*loop.OpError)
		if err == nil || again && broken {
			continue
		}
		broken = broken || again
		m.failed(&LoopError{Err: err})
	}
}

// errPanicked is the cause that ends the other runs when a task has panicked.
var errPanicked = errors.New("spindle: a task on another loop panicked")

// failed records the error of a run, which may be nil, and cancels the other runs.
func (m *members) failed(err error) {
	if err == nil {
		return
	}
	m.cancel(err)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(err)
}

// add adds an error to those of RunGroup, once: it may also be the cause that ended other runs.
func (m *members) add(err error) {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		if _, ofNursery := err.(*Errors); !ofNursery { // joined, possibly with that cause
			for _, err := range all.Unwrap() {
				m.add(err)
			}
			return
		}
	}
	for _, known := range m.errs {
		if errors.Is(known, err) {
			return
		}
	}
	if err != errPanicked {
		m.errs = append(m.errs, err)
	}
}

// panicked records the panic of a run, which may be nil, and cancels the other runs.
func (m *members) panicked(p *PanicError) {
	if p == nil {
		return
	}
	m.cancel(errPanicked)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault == nil {
		m.fault = p
	} else {
		m.errs = append(m.errs, p)
	}
}

// result returns the error of RunGroup. It panics if a task did, and calls runtime.Goexit if a
// task did that, as Run does.
func (m *members) result(lost error) error {
	err := errors.Join(append(m.errs, lost)...)
	if len(m.errs) == 1 && lost == nil {
		err = m.errs[0]
	}
	switch p := m.fault; {
	case p == nil:
		return err
	case p.Value == loop.ErrGoexit && m.g.Loops()[0].Internal().Kernel().Real():
		if err = errors.Join(p.Also, err); err != nil {
			m.o.logGoexit(err)
		}
		runtime.Goexit()
	default:
		withError(p, err).Repanic()
	}
	return err
}

// firstError returns the error that cancelled the nursery, or nil.
func (n *Nursery) firstError() error {
	if len(n.errs) == 0 {
		return nil
	}
	return n.errs[0]
}
