package pyapp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spindleloop/spindle"
)

// grace is how long a worker may take to end after it was told to cancel what it does. Tests
// on a slow machine set it.
var grace = 3 * time.Second

// Start starts the workers and waits until all of them serve. If one cannot start, Start ends
// the others and fails with an error that is ErrStart; the App is as before. An App that serves already goes
// on with the workers that it has. Without Start, the first request or call starts the workers.
func (a *App) Start(ctx context.Context) error {
	launched, err := a.launch()
	if err != nil {
		return err
	}
	err = a.wait(ctx, func() bool {
		return a.state != running || len(a.ready) >= a.workers() || a.failure != nil
	})
	if err == nil {
		switch {
		case a.state == closing || a.state == closed:
			err = errClosed
		case len(a.ready) < a.workers() && a.failure != nil:
			err = a.failure
		case a.state == unused: // another Start was cancelled
			err = ErrUnavailable
		}
		a.mu.Unlock()
	}
	if err != nil && err != errClosed && launched {
		a.abandon(ctx)
	}
	return err
}

// launch starts the supervisor unless it runs. It reports whether it did.
func (a *App) launch() (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch a.state {
	case unused:
		a.check()
		a.state, a.failure = running, nil
		var ctx context.Context
		ctx, a.cancel = context.WithCancel(context.Background())
		go a.supervise(ctx)
		return true, nil
	case closing, closed:
		return false, errClosed
	}
	return false, nil
}

func (a *App) check() {
	for _, limit := range []struct {
		field string
		value int64
	}{
		{"Workers", int64(a.Workers)}, {"Interpreters", int64(a.Interpreters)}, {"CallThreads", int64(a.CallThreads)},
		{"MaxCallBytes", int64(a.MaxCallBytes)}, {"MaxGoCalls", int64(a.MaxGoCalls)}, {"MaxMemory", a.MaxMemory},
		{"StartTimeout", int64(a.StartTimeout)}, {"DrainTimeout", int64(a.DrainTimeout)},
	} {
		if limit.value < 0 {
			panic("pyapp: App." + limit.field + " is negative")
		}
	}
}

// supervise runs the supervisor on a loop of its own.
func (a *App) supervise(ctx context.Context) {
	o := spindle.Options{ErrorLog: a.ErrorLog}
	o.Loop.Name = "pyapp " + a.Target
	err := o.Run(ctx, func(ctx context.Context) error { return runSupervisor(ctx, a) })
	if err != nil && !errors.Is(err, context.Canceled) {
		a.log().Error("pyapp: the supervisor failed", "target", a.Target, "error", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == closing {
		a.state = closed
	} else {
		a.state = unused // Start or the supervisor has failed
		if err != nil && !errors.Is(err, context.Canceled) {
			a.failure = err
		}
	}
	a.l, a.s, a.ready, a.all = nil, nil, nil, nil
	a.changed()
}

// abandon ends the processes after Start has failed.
func (a *App) abandon(ctx context.Context) {
	a.mu.Lock()
	if a.state == running {
		a.cancel()
	}
	a.mu.Unlock()
	a.waitEnd(ctx)
}

// waitEnd waits until the supervisor and the functions that Python has called have ended. That is soon,
// because the processes are killed, and the contexts of the functions have ended.
func (a *App) waitEnd(ctx context.Context) {
	_ = uncancelled(ctx, 2*grace, func(ctx context.Context) error {
		if err := a.wait(ctx, func() bool { return (a.state == closed || a.state == unused) && a.hosting == 0 }); err != nil {
			return err
		}
		a.mu.Unlock()
		return nil
	})
}

// uncancelled runs fn for at most d, even if ctx has ended.
func uncancelled(ctx context.Context, d time.Duration, fn func(context.Context) error) error {
	if spindle.Current(ctx) != nil {
		return spindle.Grace(ctx, d, fn)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
	defer cancel()
	return fn(ctx)
}

// Shutdown stops the App: new requests are answered with 503, and new calls fail with
// os.ErrClosed. It waits until running requests and calls have finished, lets the workers close
// their WebSockets and run the shutdown of the app's lifespan, and waits for their end. If ctx
// ends first, requests and calls are cancelled in Python (asyncio.CancelledError), workers
// that take longer than three seconds then are killed, and Shutdown returns the cause of ctx.
// It is safe to call Shutdown again, and after it nothing of the App is left.
func (a *App) Shutdown(ctx context.Context) error {
	a.mu.Lock()
	if a.state == unused {
		a.state = closed
	}
	if a.state == running {
		a.state = closing
		a.changed()
	}
	workers := append([]*worker(nil), a.all...)
	cancel := a.cancel
	a.mu.Unlock()
	if cancel == nil {
		return nil
	}
	var failed error
	for _, w := range workers {
		if !a.withdraw(w) {
			w.kill() // it does not serve yet
		}
	}
	if err := a.drain(ctx, workers); err != nil {
		failed = err
	}
	cancel()
	a.waitEnd(ctx)
	return failed
}

// Close is Shutdown with DrainTimeout as its limit. It is for goroutines: in a task, call
// Shutdown with the task's context.
func (a *App) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), a.drainTimeout())
	defer cancel()
	return a.Shutdown(ctx)
}

// drain waits until workers that take no more requests have finished and ended. If ctx
// ends first, it cancels what they do, and kills them if that takes too long.
func (a *App) drain(ctx context.Context, workers []*worker) error {
	until := func(ctx context.Context, done func(*worker) bool) error {
		err := a.wait(ctx, func() bool {
			for _, w := range workers {
				if !w.exited && !done(w) {
					return false
				}
			}
			return true
		})
		if err == nil {
			a.mu.Unlock()
		}
		return err
	}
	exited := func(*worker) bool { return false }
	err := until(ctx, func(w *worker) bool { return w.active == 0 })
	if err == nil {
		for _, w := range workers {
			w.send(opStop)
		}
		err = until(ctx, exited)
	}
	if err == nil {
		return nil
	}
	for _, w := range workers {
		w.send(opCancel)
	}
	if uncancelled(ctx, grace, func(ctx context.Context) error { return until(ctx, exited) }) != nil {
		for _, w := range workers {
			w.kill()
		}
		_ = uncancelled(ctx, grace, func(ctx context.Context) error { return until(ctx, exited) })
	}
	return fmt.Errorf("pyapp: Shutdown: requests or calls were cancelled: %w", err)
}

// Restart replaces the workers, for example after the Python code has changed. It starts new
// ones and waits until they serve. Then the old ones take no more requests, finish those that run
// within DrainTimeout, and end. If a new worker cannot start, Restart fails with an error that is ErrStart, and the
// old ones continue. Restart of an App that has not started does nothing.
func (a *App) Restart(ctx context.Context) error {
	a.mu.Lock()
	s, state := a.s, a.state
	a.mu.Unlock()
	if state == closing || state == closed {
		return errClosed
	}
	if state == unused {
		return nil
	}
	if s == nil { // it begins to start
		return a.Start(ctx)
	}
	return s.replace(ctx)
}
