package pyapp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/loop"
)

// The methods of this file change and read which workers there are, from any goroutine.

func (a *App) loop() *loop.Loop {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.l
}

func (a *App) isRunning() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state == running
}

func (a *App) isLeaving(w *worker) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return w.leaving
}

// hasLeft reports whether a worker takes no more requests, or has ended.
func (a *App) hasLeft(w *worker) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return w.leaving || w.exited
}

// register notes a process that was started. It reports false if the App is closing.
func (a *App) register(w *worker) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != running {
		return false
	}
	a.all = append(a.all, w)
	return true
}

// add makes a worker take requests. It reports false if the worker must end.
func (a *App) add(w *worker) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != running {
		return false
	}
	if !w.serving {
		w.serving = true
		a.ready = append(a.ready, w)
		a.failure = nil
		a.changed()
	}
	return true
}

// replaced makes new workers take the requests, and returns the old ones, which leave.
func (a *App) replaced(fresh []*worker) (old []*worker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.all {
		if w.serving && !w.leaving {
			w.leaving = true
			old = append(old, w)
		}
	}
	for _, w := range fresh {
		w.serving = true
	}
	a.ready = slices.Clone(fresh)
	a.failure = nil
	a.changed()
	return old
}

// withdraw makes a worker take no more requests. It reports whether the worker was ready
// before.
func (a *App) withdraw(w *worker) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != running {
		w.leaving = true
	}
	a.ready = without(a.ready, w)
	a.changed()
	return w.serving
}

// suspect makes a worker that has broken a connection take no requests until it has answered
// a ping. Otherwise requests would go to a process that has just crashed.
func (a *App) suspect(w *worker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.suspected || w.leaving || w.exited {
		return
	}
	w.suspected = true
	a.ready = without(a.ready, w)
	w.send(opPing)
}

// trust makes a worker that has answered a ping take requests again.
func (a *App) trust(w *worker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.suspected && !w.leaving && !w.exited {
		a.ready = append(without(a.ready, w), w)
		a.changed()
	}
	w.suspected = false
}

// dismiss makes a worker leave.
func (a *App) dismiss(w *worker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.leaving = true
	a.ready = without(a.ready, w)
	a.changed()
}

// remove notes that a process has ended. Its calls fail.
func (a *App) remove(w *worker) {
	a.mu.Lock()
	w.exited = true
	a.ready, a.all = without(a.ready, w), without(a.all, w)
	calls, idle := w.calls, w.idle
	w.calls, w.idle = nil, nil
	a.changed()
	a.mu.Unlock()
	for _, waiting := range calls {
		_ = waiting.TryPut(answer{err: ErrCrashed})
	}
	w.die(ErrCrashed)
	for _, c := range idle {
		c.close()
	}
}

func without(workers []*worker, w *worker) []*worker {
	return slices.DeleteFunc(slices.Clone(workers), func(other *worker) bool { return other == w })
}

func (a *App) noteFailure(err error) {
	a.log().Error("pyapp: a worker cannot start", "target", a.Target, "error", err)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure = err
	a.changed()
}

// acquire returns the worker with the fewest running requests, and starts the App if need be.
// Release must follow.
func (a *App) acquire(ctx context.Context) (*worker, error) {
	a.mu.Lock()
	w := a.pick()
	if h := chainOf(ctx); w == nil && h != nil {
		w = a.rejoin(h.w)
	}
	a.mu.Unlock()
	if w != nil {
		return w, nil
	}
	if _, err := a.launch(); err != nil {
		return nil, err
	}
	var refusal error
	err := within(ctx, a.startTimeout(), func(ctx context.Context) error {
		err := a.wait(ctx, func() bool {
			w = a.pick()
			return w != nil || a.state != running || a.failure != nil && len(a.ready) == 0
		})
		if err == nil {
			refusal = a.refusal()
			a.mu.Unlock()
		}
		return err
	})
	switch {
	case w != nil: // even if the time has passed at the same moment
		return w, nil
	case errors.Is(err, errLate):
		return nil, ErrUnavailable
	case err != nil:
		return nil, err
	}
	return nil, refusal
}

// refusal returns why there is no worker for a request. It is called with a.mu held.
func (a *App) refusal() error {
	switch {
	case a.state == closing || a.state == closed:
		return errClosed
	case a.failure != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, a.failure)
	}
	return ErrUnavailable // Start was cancelled
}

var errLate = errors.New("pyapp: late")

// within runs fn for at most d. If that ended fn, it fails with errLate.
func within(ctx context.Context, d time.Duration, fn func(context.Context) error) error {
	if spindle.Current(ctx) != nil {
		late, err := spindle.MoveOnAfter(ctx, d, fn)
		if late {
			return errLate
		}
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d, errLate)
	defer cancel()
	return fn(ctx)
}

// pick returns a worker for a request, or nil. It is called with a.mu held.
func (a *App) pick() (best *worker) {
	if a.state != running {
		return nil
	}
	for _, w := range a.ready {
		if best == nil || w.active < best.active {
			best = w
		}
	}
	if best != nil {
		best.active++
	}
	return best
}

// rejoin returns a worker that has called Go, for a call back, even if the App is closing: the call
// from the worker would otherwise fail. It is nil if the worker has ended. It is called with
// a.mu held.
func (a *App) rejoin(w *worker) *worker {
	if w.a != a || !w.leaving || w.exited || w.active == 0 {
		return nil
	}
	w.active++
	return w
}

// release ends a request or call of a worker.
func (a *App) release(w *worker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.active--
	if w.active == 0 && w.leaving {
		a.changed()
	}
}

// newCall registers a call of a worker that has up to so many answers.
func (a *App) newCall(w *worker, answers int) (id uint64, waiting *cosync.Inbox[answer]) {
	waiting = cosync.NewInbox[answer](answers)
	a.mu.Lock()
	defer a.mu.Unlock()
	w.lastID++
	if w.calls == nil { // it has ended
		_ = waiting.TryPut(answer{err: ErrCrashed})
	} else {
		w.calls[w.lastID] = waiting
	}
	return w.lastID, waiting
}
