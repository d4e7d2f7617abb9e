package pyapp

import (
	"sync"
	"sync/atomic"
	"time"
)

// keepReaders is how many idle goroutines a worker keeps.
const keepReaders = 64

// A function is quick after quickCalls calls in a row that took less than quickTime each. After it has
// blocked the goroutine that reads, it needs blockedCalls more.
const (
	quickCalls   = 16
	quickTime    = 25 * time.Microsecond
	blockedCalls = 1000
)

// patience is how long a quick function may run before another goroutine reads: about one to two times as long, since
// look runs at intervals.
const patience = time.Millisecond

// readers are the goroutines of a worker. One at a time reads frames. It runs quick functions itself, because
// waking another goroutine takes longer than they do. Before any other function it hands the reading over. A goroutine that
// has finished its function waits until it is to read again: a new one would first copy its stack while it grows.
type readers struct {
	w *worker

	mu     sync.Mutex
	idle   []chan struct{} // of goroutines that wait, the last one is the next; guarded by mu, as all below
	closed bool
	quick  *pace       // of the quick function that the goroutine which reads runs; otherwise nil
	begun  uint64      // how many quick functions have begun
	seen   uint64      // what begun was when look ran
	looks  bool        // the timer runs
	timer  *time.Timer // runs look; nil before the first quick function
}

// handOver makes another goroutine read, unless the worker has ended. Shutdown waits for its end.
func (r *readers) handOver() {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	if last := len(r.idle) - 1; last >= 0 {
		next := r.idle[last]
		r.idle = r.idle[:last]
		r.mu.Unlock()
		next <- struct{}{}
		return
	}
	r.mu.Unlock()
	r.w.a.goForPython(r.run)
}

// run reads whenever it is this goroutine's turn.
func (r *readers) run() {
	next := make(chan struct{}, 1)
	for again := true; again; again = r.wait(next) {
		r.w.read()
	}
}

// wait waits until the goroutine is to read. It reports false if the goroutine is to end.
func (r *readers) wait(next chan struct{}) bool {
	r.mu.Lock()
	if r.closed || len(r.idle) == keepReaders {
		r.mu.Unlock()
		return false
	}
	r.idle = append(r.idle, next)
	r.mu.Unlock()
	_, ok := <-next
	return ok
}

// close ends the idle goroutines, and the others when they finish.
func (r *readers) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, next := range r.idle {
		close(next)
	}
	r.idle = nil
	if r.timer != nil {
		r.timer.Stop()
	}
}

// call calls a function with a pace, and reports whether the goroutine still reads afterwards. Quick is nil for a function
// that is not quick.
func (r *readers) call(quick *pace, fn func()) (reads bool) {
	if quick == nil {
		r.handOver()
		fn()
		return false
	}
	n := r.begin(quick)
	fn() // if it calls runtime.Goexit, look hands over
	return r.end(n)
}

// begin notes that a quick function begins, and returns its number.
func (r *readers) begin(p *pace) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quick = p
	r.begun++
	switch {
	case r.looks || r.closed:
	case r.timer == nil:
		r.looks, r.timer = true, after(patience, r.look)
	default:
		r.looks = true
		r.timer.Reset(patience)
	}
	return r.begun
}

// end notes that a quick function has returned, and reports whether its goroutine still reads.
func (r *readers) end(n uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	reads := r.quick != nil && r.begun == n
	if reads {
		r.quick = nil
	}
	return reads
}

// look hands the reading over if the function that the previous look saw still runs. It runs again as long as functions begin.
func (r *readers) look() {
	r.mu.Lock()
	var blocked *pace
	if r.begun == r.seen {
		blocked, r.quick = r.quick, nil
	}
	r.looks = r.begun != r.seen && !r.closed
	r.seen = r.begun
	if r.looks {
		r.timer.Reset(patience)
	}
	r.mu.Unlock()
	if blocked != nil {
		blocked.block()
		r.handOver()
	}
}

// pace counts a function's consecutive quick calls, up to quickCalls. A function that has blocked begins far below zero.
type pace struct{ quick atomic.Int32 }

func (p *pace) isQuick() bool { return p.quick.Load() >= quickCalls }

// note notes how long a call has taken.
func (p *pace) note(took time.Duration) {
	n := p.quick.Load()
	switch {
	case took >= quickTime:
		p.quick.Store(min(n, 0))
	case n < quickCalls:
		p.quick.CompareAndSwap(n, n+1) // of two calls at once, one may be lost
	}
}

// block notes that the function has blocked the goroutine that reads.
func (p *pace) block() { p.quick.Store(-blockedCalls) }
