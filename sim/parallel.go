package sim

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle"
)

// effort is a search under way: the seeds that are still to be tried, by number, and
// the first that has failed. The result is that of trying them in order: workers take
// numbers in order, and one that fails lets all lower ones come to their end.
type effort struct {
	ctx  context.Context
	try  func(i int) *Failure // runs the i-th seed; nil if it does not fail
	next atomic.Int64         // to be tried
	end  atomic.Int64         // none from here on; lowered to a failure's number

	mu     sync.Mutex
	first  *Failure            // with the lowest number; guarded by mu
	fault  *spindle.PanicError // of a worker; guarded by mu
	exited bool                // a worker has ended by Goexit; guarded by mu
}

// search tries seeds from..n-1, some at a time, and returns the first failure. A
// panic of a worker is the caller's. If a worker ended by Goexit, because its test
// has ended, so does the caller: by exit.
func search(ctx context.Context, from, n, workers int, try func(i int) *Failure, exit func()) *Failure {
	e := &effort{ctx: ctx, try: try}
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

// worker is work on a goroutine of its own.
func (e *effort) worker() {
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

func (e *effort) work() {
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

func (e *effort) fail(i int64, f *Failure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f.Runs = int(i) + 1
	if e.first == nil || f.Runs < e.first.Runs {
		e.first = f
		e.end.Store(min(i, e.end.Load()))
	}
}
