package pyapp

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/backoff"
	"github.com/spindleloop/spindle/internal/workerproc"
)

// The pauses before a process starts again if it has failed at its start, or has ended
// within steady.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 10 * time.Second
	steady     = 5 * time.Second
)

// supervisor keeps the worker processes of an App running. Loop goroutine only.
type supervisor struct {
	a          *App
	ctx        context.Context // the processes belong to its scope
	n          *spindle.Nursery
	dir        string // of the sockets
	sockets    int    // that were named
	generation int    // of workers; Restart begins a new one
	replacing  cosync.Mutex
}

// runSupervisor starts the workers and keeps them running until ctx ends.
func runSupervisor(ctx context.Context, a *App) error {
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		dir, err := workerproc.SocketDir(ctx)
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		s := &supervisor{a: a, ctx: ctx, n: n, dir: dir}
		a.mu.Lock()
		a.l, a.s = spindle.LoopOf(ctx), s
		a.changed()
		a.mu.Unlock()
		for range a.workers() {
			n.Go(func(ctx context.Context) error { return s.keep(ctx, nil) })
		}
		var never cosync.Event
		return never.Wait(ctx)
	})
}

// keep keeps one worker running: w first, unless it is nil.
func (s *supervisor) keep(ctx context.Context, w *worker) error {
	pauses := backoff.Backoff{First: firstPause, Most: mostPause}
	for generation := s.generation; ; {
		var err error
		if w == nil {
			w, err = s.start(ctx)
		}
		if err != nil {
			if errors.As(err, new(*spindle.Canceled)) {
				return err
			}
			if !s.a.isRunning() { // Shutdown has ended the process
				return nil
			}
			s.a.noteFailure(err)
			if err := spindle.Sleep(ctx, pauses.Next()); err != nil {
				return err
			}
		} else {
			begun := spindle.Now(ctx)
			if generation != s.generation || !s.a.add(w) {
				s.a.remove(w)
				w.end()
				return nil
			}
			err = w.serve(ctx)
			if s.a.isLeaving(w) {
				return nil
			}
			s.a.log().Error("pyapp: a worker has ended; starting another", "target", s.a.Target, "pid", w.process.Pid(), "error", err)
			if spindle.Now(ctx).Sub(begun) >= steady {
				pauses.Reset()
			}
			if err := spindle.Sleep(ctx, pauses.Next()); err != nil {
				return err
			}
		}
		w = nil
		if generation != s.generation || !s.a.isRunning() {
			return nil
		}
	}
}

// start starts a worker and waits until it is ready.
func (s *supervisor) start(ctx context.Context) (*worker, error) {
	python, err := s.a.interpreter()
	if err != nil {
		return nil, err
	}
	s.sockets++
	socket := filepath.Join(s.dir, strconv.Itoa(s.sockets))
	stderr := s.a.Stderr
	if stderr == nil {
		stderr = os.Stderr
	}
	process, err := workerproc.Start(s.ctx, s.n, workerproc.Config{
		Command: s.a.command(python, socket), Dir: s.a.Dir, Env: s.a.environment(), Stderr: stderr,
		MaxMemory: s.a.MaxMemory, Goroutines: true, Descriptors: true,
	})
	if err != nil {
		if errors.As(err, new(*spindle.Canceled)) {
			return nil, err
		}
		return nil, &startError{target: s.a.Target, python: python, reason: errNoPython, text: err.Error()}
	}
	w := newWorker(s.a, process, socket)
	w.leave = func() {
		_ = s.a.loop().PostDroppable(func() {
			if !s.n.Ended() {
				s.n.Go(func(ctx context.Context) error { return s.succeed(ctx, w) })
			}
		})
	}
	if !s.a.register(w) {
		w.end()
		return nil, errClosed
	}
	w.start()
	err = w.waitReady(ctx, s.a.startTimeout())
	if err == nil {
		return w, nil
	}
	s.a.remove(w)
	w.end()
	if failed := (*startError)(nil); errors.As(err, &failed) {
		failed.target, failed.python = s.a.Target, python
	}
	return nil, err
}

// replace starts a new generation of workers, for any goroutine.
func (s *supervisor) replace(ctx context.Context) error {
	var failed error
	done := false
	err := s.a.loop().Post(func() {
		if s.n.Ended() {
			return
		}
		s.n.Go(func(own context.Context) error {
			err := s.replaceAll(own)
			s.a.mu.Lock()
			done, failed = true, err
			s.a.changed()
			s.a.mu.Unlock()
			return nil
		})
	})
	if err != nil {
		return errClosed
	}
	if err := s.a.wait(ctx, func() bool { return done || s.a.s != s }); err != nil {
		return err
	}
	defer s.a.mu.Unlock()
	if !done || errors.As(failed, new(*spindle.Canceled)) {
		return errClosed
	}
	return failed
}

func (s *supervisor) replaceAll(ctx context.Context) error {
	if err := s.replacing.Lock(ctx); err != nil {
		return err
	}
	defer s.replacing.Unlock()
	fresh := make([]*worker, s.a.workers())
	err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		for i := range fresh {
			n.Go(func(ctx context.Context) (err error) {
				fresh[i], err = s.start(ctx)
				return err
			})
		}
		return nil
	})
	if err != nil {
		for _, w := range fresh {
			if w != nil {
				s.a.remove(w)
				w.end()
			}
		}
		return err
	}
	s.generation++
	old := s.a.replaced(fresh)
	for _, w := range fresh {
		s.n.Go(func(ctx context.Context) error { return s.keep(ctx, w) })
	}
	s.n.Go(func(ctx context.Context) error { return s.drain(ctx, old...) })
	return nil
}

// drain ends workers that take no more requests.
func (s *supervisor) drain(ctx context.Context, workers ...*worker) error {
	err := spindle.FailAfter(ctx, s.a.drainTimeout(), func(ctx context.Context) error { return s.a.drain(ctx, workers) })
	if errors.As(err, new(*spindle.Canceled)) && !errors.Is(err, spindle.ErrTimeout) {
		return err
	}
	return nil // they have ended, with or without an error
}

// succeed replaces one worker, which serves until the new one is ready.
func (s *supervisor) succeed(ctx context.Context, old *worker) error {
	pauses := backoff.Backoff{First: firstPause, Most: mostPause}
	fresh, err := s.start(ctx)
	for ; err != nil; fresh, err = s.start(ctx) {
		if errors.As(err, new(*spindle.Canceled)) {
			return err
		}
		if !s.a.isRunning() {
			return nil
		}
		s.a.log().Error("pyapp: a worker cannot be replaced yet", "target", s.a.Target, "error", err)
		if err := spindle.Sleep(ctx, pauses.Next()); err != nil || s.a.hasLeft(old) {
			return err
		}
	}
	if s.a.hasLeft(old) { // it was replaced meanwhile, or has ended and keep starts another
		s.a.remove(fresh)
		fresh.end()
		return nil
	}
	s.n.Go(func(ctx context.Context) error { return s.keep(ctx, fresh) })
	if s.a.add(fresh) {
		s.a.dismiss(old)
		return s.drain(ctx, old)
	}
	return nil
}
