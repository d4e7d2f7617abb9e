package spindle

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle/internal/atclose"
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
// and Group.Close fails. To end all runs early, cancel ctx. Group.Stop ends them too, and RunGroup then
// fails.
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
	return m.result(m.close())
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

// run runs a loop until all members have ended. If the kernel of the loop fails, run closes it at once: it
// can run nothing any more, and calls of other loops must not wait for it.
func (m *members) run(l *loop.Loop, fn func(context.Context, *loop.Group) error) {
	if !m.serve(l, fn) {
		m.failed(l.Close())
	}
}

// serve runs fn on a loop, and the loop until all members have ended. It reports false if the kernel
// of the loop has failed.
func (m *members) serve(l *loop.Loop, fn func(context.Context, *loop.Group) error) bool {
	r := newRun(m.ctx, l, m.o)
	defer coro.OnGoroutine(func() { r.s.leave(r) })
	unfollow := r.follow(m.ctx)
	ended := false // the run
	end := func() {
		if ended {
			return
		}
		ended = true
		unfollow()
		m.ended(r)
	}
	r.root.done = func() { l.Internal().CallSoon(atclose.Run, end) } // other loops may go on to call this one
	m.start(r, fn)
	for {
		err := l.Run(context.Background())
		if err == nil && r.root.running == 0 {
			end()
		}
		switch {
		case err == nil && m.left.Load() == 0:
			return true
		case err == nil && ended && m.ctx.Err() != nil:
			continue // all runs are ending already
		case err == nil:
			err = errStopped
		}
		if ended {
			m.failed(&loopError{err: err})
		} else {
			m.failed(r.failure(err))
			r.root.done = l.Stop
			r.clear(err)
			end()
		}
		if loop.Internal().KernelFailed(err) {
			return false
		}
	}
}

// start starts fn on the loop of a run.
func (m *members) start(r *run, fn func(context.Context, *loop.Group) error) {
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
}

// ended ends a run when its tasks have ended. After the last run it stops all loops.
func (m *members) ended(r *run) {
	fault, err := r.end(m.ctx)
	m.panicked(fault)
	m.failed(err)
	if m.left.Add(-1) == 0 {
		for _, l := range m.g.Loops() {
			l.Stop()
		}
	}
}

// close closes the loops that are not closed yet.
func (m *members) close() error {
	var errs []error
	for _, l := range m.g.Loops() {
		if err := l.Close(); err != loop.ErrClosed {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
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
