package simkernel

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// Contexts are ended by programs, or by timers in a bubble. No goroutine reports that:
// each process checks the contexts that it watches inside Wait, in the order of AfterFunc.
// Before time passes, the world looks for processes with a context that has ended.

// contexts are the contexts that a process watches.
type contexts struct {
	n   atomic.Int32 // their number; any goroutine
	mu  sync.Mutex
	all []*watchedContext // guarded by mu
}

type watchedContext struct {
	ctx  context.Context
	fn   func()
	stop func() bool // stops the watch that pokes the bubble; nil without a bubble
}

// AfterFunc calls fn on the loop after ctx has ended. It may be called from any goroutine.
func (p *Process) AfterFunc(ctx context.Context, fn func()) (stop func() bool) {
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	f := &watchedContext{ctx: ctx, fn: fn}
	if b := p.w.bubble; b != nil {
		f.stop = context.AfterFunc(ctx, b.Poke)
	}
	s := &p.contexts
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, f)
	s.n.Add(1)
	p.w.watchedContexts.Add(1)
	return func() bool { return s.remove(p.w, f) }
}

func (s *contexts) remove(w *World, f *watchedContext) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.all, f)
	if i < 0 {
		return false
	}
	s.all = slices.Delete(s.all, i, i+1)
	s.forget(w, f)
	return true
}

func (s *contexts) forget(w *World, f *watchedContext) {
	s.n.Add(-1)
	w.watchedContexts.Add(-1)
	if f.stop != nil {
		f.stop()
	}
}

// takeEnded removes and returns the contexts that have ended.
func (s *contexts) takeEnded(w *World) (over []*watchedContext) {
	if s.n.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(f *watchedContext) bool {
		if f.ctx.Err() == nil {
			return false
		}
		s.forget(w, f)
		over = append(over, f)
		return true
	})
	return over
}

// call calls the functions of the contexts that have ended. It reports whether there were
// any.
func (s *contexts) call(w *World) bool {
	over := s.takeEnded(w)
	for _, f := range over {
		f.fn()
	}
	return len(over) > 0
}

// forgetAll stops watching when the process ends.
func (s *contexts) forgetAll(w *World) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.all {
		s.forget(w, f)
	}
	s.all = nil
}

// anyEnded reports whether one of the contexts has ended.
func (s *contexts) anyEnded() bool {
	if s.n.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.all, func(f *watchedContext) bool { return f.ctx.Err() != nil })
}

// resumeContextWaiters makes the processes runnable that have a context that has ended. It
// reports whether there were any.
func (w *World) resumeContextWaiters() (found bool) {
	if w.watchedContexts.Load() == 0 {
		return false
	}
	for _, p := range w.processes {
		if p.state == waiting && p.contexts.anyEnded() {
			p.makeRunnable()
			found = true
		}
	}
	return found
}
