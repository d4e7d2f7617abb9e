package loop

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/spindleloop/spindle/internal/workers"
)

// pools are the workers of a loop by their pool, without the loop's own.
type pools struct {
	mu  sync.Mutex
	all []*workerPool // in the order of their first use; guarded by mu
}

// poolOf returns the workers of a pool. Loop goroutine only.
func (l *Loop) poolOf(pool *workers.Pool) *workerPool {
	if pool == nil {
		return &l.ownPool
	}
	l.pools.mu.Lock()
	defer l.pools.mu.Unlock()
	for _, w := range l.pools.all {
		if w.pool == pool {
			return w
		}
	}
	w := &workerPool{pool: pool, limit: pool.Limit, most: l.ownPool.most}
	if w.limit <= 0 {
		w.limit = l.ownPool.limit
	}
	l.pools.all = append(l.pools.all, w)
	return w
}

// eachPool calls fn with the loop's own workers, and then with those of each pool.
func (l *Loop) eachPool(fn func(w *workerPool)) {
	fn(&l.ownPool)
	l.pools.mu.Lock()
	defer l.pools.mu.Unlock()
	for _, w := range l.pools.all {
		fn(w)
	}
}

// fullFor is how long jobs must have waited for a worker before that is reported.
const fullFor = 100 * time.Millisecond

// noteFull notes that a job has to wait for a worker. The first time that jobs have waited for
// long, it reports that. Called with mu held.
func (w *workerPool) noteFull(l *Loop) {
	now := l.k.Mono()
	if w.queue.waiting() == 0 {
		w.full = now
	}
	if since := now - w.full; since >= fullFor && !w.reported && l.k.Real() {
		w.reported = true
		w.logFull(w.queue.waiting()+1, since)
	}
}

// counts returns the numbers of a pool. Any goroutine may call it.
func (w *workerPool) counts() workers.Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := ""
	if w.pool != nil {
		name = w.pool.Name
	}
	return workers.Counts{Pool: name, Limit: w.limit, Busy: w.busy, Queued: w.queue.waiting(), Unfinished: w.unfinished, Delivered: w.delivered}
}

// jobs returns how many jobs are unfinished, and how many were delivered. Any goroutine
// may call it.
func (l *Loop) jobs() (unfinished int, delivered uint64) {
	l.eachPool(func(w *workerPool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		unfinished += w.unfinished
		delivered += w.delivered
	})
	return unfinished, delivered
}

// closeWorkers drops the jobs that no worker has begun. It calls lost with the code of
// each unfinished job that is to be reported. A job is unfinished until done is called,
// wherever it is.
func (l *Loop) closeWorkers(lost func(code uintptr)) {
	l.eachPool(func(w *workerPool) { w.close(lost) })
}

func (w *workerPool) close(lost func(code uintptr)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = lane{}
	first := w.last
	for first != nil && first.prev != nil {
		first = first.prev
	}
	for j := first; j != nil; j = j.next {
		if !j.dropped {
			lost(j.code)
		}
	}
	w.last = nil
}

// logFull logs that the workers are not enough.
func (w *workerPool) logFull(waiting int, since time.Duration) {
	which := fmt.Sprintf("all %d workers (loop.Options.Workers)", w.limit)
	if w.pool != nil {
		which = fmt.Sprintf("all %d workers of pool %q", w.limit, w.pool.Name)
	}
	slog.Warn(fmt.Sprintf("loop: %s are busy; %d jobs wait, the first for %v. Slow calls delay all others of their pool: "+
		"raise its limit, or give them a pool of their own (spindle.Pool).", which, waiting, since.Round(time.Millisecond)))
}
