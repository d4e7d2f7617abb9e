package sim

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle"
)

// seedSearch is a search in progress: the seeds still to be tried, by index, and the
// first failure. The result is the same as if seeds were tried in order: workers take
// indexes in order, and after a failure all lower indexes are still run to the end.
type seedSearch struct {
	ctx  context.Context
	try  func(i int) *Failure // runs the i-th seed; nil if it does not fail
	next atomic.Int64         // the next index to try
	end  atomic.Int64         // indexes from here on are not tried; lowered by a failure

	mu     sync.Mutex
	first  *Failure            // the failure with the lowest index; guarded by mu
	fault  *spindle.PanicError // panic of a worker; guarded by mu
	exited bool                // a worker has ended by Goexit; guarded by mu
}

// search tries the seeds from..n-1 with the given number of workers and returns the
// first failure. A panic of a worker is raised again in the caller. If a worker ended
// by Goexit, because its test has ended, search calls exit, which must not return.
func search(ctx context.Context, from, n, workers int, try func(i int) *Failure, exit func()) *Failure {
	e := &seedSearch{ctx: ctx, try: try}
	e.next.Store(int64(from))
	e.end.Store(int64(n))
	if workers = min(workers, n-from); workers <= 1 {
		e.work()
		return e.first
	}
	var all sync.WaitGroup
	for range workers {
		all.Go(e.worker)
	}
	all.Wait()
	switch {
	case e.fault != nil:
		panic(e.fault)
	case e.exited:
		exit()
	}
	return e.first
}

// worker runs work and records how its goroutine ended: a panic, or Goexit.
func (e *seedSearch) worker() {
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		e.end.Store(0)
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.exited = e.exited || v == nil; v != nil && e.fault == nil {
			e.fault = &spindle.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	e.work()
	returned = true
}

// work tries seeds until none are left.
func (e *seedSearch) work() {
	for e.ctx.Err() == nil {
		i := e.next.Add(1) - 1
		if i >= e.end.Load() {
			return
		}
		if f := e.try(int(i)); f != nil {
			e.fail(i, f)
		}
	}
}

func (e *seedSearch) fail(i int64, f *Failure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f.Runs = int(i) + 1
	if e.first == nil || f.Runs < e.first.Runs {
		e.first = f
		e.end.Store(min(i, e.end.Load()))
	}
}
