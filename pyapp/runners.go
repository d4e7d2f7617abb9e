package pyapp

import "sync"

// keepRunners is how many idle goroutines a worker keeps for the next calls of Go functions.
const keepRunners = 64

// runners are the goroutines that calls of Go functions run on. One that has finished a call waits for
// the next: a new goroutine would first copy its stack while it grows, which takes longer than a small call.
type runners struct {
	a *App

	mu     sync.Mutex
	idle   []chan func() // of goroutines that wait, the last one is the next; guarded by mu
	closed bool          // guarded by mu
}

// run runs fn on a goroutine. Shutdown waits for its end.
func (r *runners) run(fn func()) {
	r.mu.Lock()
	if last := len(r.idle) - 1; last >= 0 {
		next := r.idle[last]
		r.idle = r.idle[:last]
		r.mu.Unlock()
		next <- fn
		return
	}
	r.mu.Unlock()
	r.a.goForPython(func() {
		for next := make(chan func(), 1); fn != nil; fn = r.next(next) {
			fn()
		}
	})
}

// next waits for what to run next. It returns nil if the goroutine is to end.
func (r *runners) next(next chan func()) func() {
	r.mu.Lock()
	if r.closed || len(r.idle) == keepRunners {
		r.mu.Unlock()
		return nil
	}
	r.idle = append(r.idle, next)
	r.mu.Unlock()
	return <-next
}

// close ends the idle goroutines, and the others when they have nothing to run any more.
func (r *runners) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, next := range r.idle {
		close(next)
	}
	r.idle = nil
}
