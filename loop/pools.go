package loopcore

import (
	"sync"
	"time"
)

// Pool is a group of workers besides a loop's own. Each loop that uses it has workers of its
// own for it. See spindle.Pool.
type Pool struct {
	Name  string
	Limit int // the most workers on each loop; zero or less means as many as the loop's own
}

// pools are the workers of a loop by their pool, without the loop's own.
type pools struct {
	mu  sync.Mutex
	all []*workers // in the order of their first use; guarded by mu
}

// workersOf returns the workers of a pool. Loop goroutine only.
func (c *Loop) workersOf(pool *Pool) *workers {
	if pool == nil {
		return &c.workers
	}
	c.pools.mu.Lock()
	defer c.pools.mu.Unlock()
	for _, w := range c.pools.all {
		if w.pool == pool {
			return w
		}
	}
	w := &workers{pool: pool, limit: pool.Limit, most: c.workers.most}
	if w.limit <= 0 {
		w.limit = c.workers.limit
	}
	c.pools.all = append(c.pools.all, w)
	return w
}

// eachWorkers calls fn with the loop's own workers, and then with those of each pool.
func (c *Loop) eachWorkers(fn func(w *workers)) {
	fn(&c.workers)
	c.pools.mu.Lock()
	defer c.pools.mu.Unlock()
	for _, w := range c.pools.all {
		fn(w)
	}
}

// fullFor is how long jobs must have waited for a worker before that is reported.
const fullFor = 100 * time.Millisecond

// noteFull notes that a job has to wait for a worker. The first time that jobs have waited for
// long, it reports that. Called with mu held.
func (w *workers) noteFull(c *Loop) {
	now := c.config.Kernel.Mono()
	if w.queue.waiting() == 0 {
		w.full = now
	}
	if since := now - w.full; since >= fullFor && !w.reported && c.config.PoolFull != nil {
		w.reported = true
		c.config.PoolFull(w.pool, w.limit, w.queue.waiting()+1, since)
	}
}

// WorkerCounts are the numbers of a pool of workers.
type WorkerCounts struct {
	Pool       string // its name; "" for the loop's own
	Limit      int    // the most workers
	Busy       int    // workers that exist
	Queued     int    // jobs that no worker has begun
	Unfinished int    // jobs that are not delivered
	Delivered  uint64
}

// WorkerCounts returns the numbers of the loop's own workers, and then of each pool that it
// has used. Any goroutine may call it.
func (c *Loop) WorkerCounts() (all []WorkerCounts) {
	c.eachWorkers(func(w *workers) {
		w.mu.Lock()
		defer w.mu.Unlock()
		name := ""
		if w.pool != nil {
			name = w.pool.Name
		}
		all = append(all, WorkerCounts{name, w.limit, w.busy, w.queue.waiting(), w.unfinished, w.delivered})
	})
	return all
}

// Jobs returns how many jobs are unfinished, and how many were delivered. Any goroutine
// may call it.
func (c *Loop) Jobs() (unfinished int, delivered uint64) {
	c.eachWorkers(func(w *workers) {
		w.mu.Lock()
		defer w.mu.Unlock()
		unfinished += w.unfinished
		delivered += w.delivered
	})
	return unfinished, delivered
}

// CloseWorkers drops the jobs that no worker has begun. It calls lost with the code of
// each unfinished job that is to be reported. A job is unfinished until done is called,
// wherever it is. For package loop.
func (c *Loop) CloseWorkers(lost func(code uintptr)) {
	c.eachWorkers(func(w *workers) { w.close(lost) })
}

func (w *workers) close(lost func(code uintptr)) {
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
