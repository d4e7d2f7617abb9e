package loopcore

import (
	"reflect"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
)

// Job identifies offloaded work. The zero Job identifies none.
type Job struct {
	c   *Loop
	job *job
}

// Offload runs work on a goroutine and then calls done on the loop with its result; see
// loop.Offload. The goroutine is one of the pool; nil is the loop's own pool. Close reports an
// unfinished job as lost, or drops it, as at says. RunAtClose panics, because Close does not
// wait for jobs.
func Offload[T any](c *Loop, pool *Pool, at AtClose, work func() (T, error), done func(T, error)) (Job, error) {
	c.Only("Offload")
	if work == nil || done == nil {
		panic("loop: Offload with a nil function")
	}
	if at > DropAtClose {
		panic("loop: Offload with RunAtClose: Close does not wait for jobs")
	}
	j := &job{w: c.workersOf(pool), code: CodeOf(work), dropped: at == DropAtClose}
	j.work = func() {
		var value T
		var err error
		returned := false
		// Deferred, because a Goexit in work does not come back here.
		defer func() {
			if !returned {
				j.failed = true
				v := recover()
				if v == nil {
					v = ErrGoexit
				}
				err = c.config.PanicError(v, debug.Stack())
			}
			j.done = func() { done(value, err) }
			_ = c.PostEntry(nil, j) // a closed loop has accounted for the job
		}()
		value, err = work()
		returned = true
	}
	if err := j.w.add(c, j); err != nil {
		return Job{}, err
	}
	return Job{c, j}, nil
}

// CodeOf returns the address of a function's code.
func CodeOf(fn any) uintptr { return reflect.ValueOf(fn).Pointer() }

// job is offloaded work, and then its result on the way to the loop.
type job struct {
	w       *workers
	work    func() // also posts the result
	done    func() // set by work
	code    uintptr
	dropped bool // Close does not report it
	failed  bool // work has panicked, or has called runtime.Goexit; set by work

	// Guarded by the workers' mu.
	seq        uint64 // in the queue
	prev, next *job   // in the list of unfinished jobs
}

// Resume delivers the result. The loop calls it.
func (j *job) Resume() {
	j.w.mu.Lock()
	j.w.remove(j)
	j.w.delivered++
	j.w.mu.Unlock()
	j.done()
}

// Cancel removes a job that no worker has begun, and reports whether it did: then done is
// not called. Work that has begun cannot be stopped from outside.
func (j Job) Cancel() bool {
	if j.c == nil || j.c.Closed() {
		return false
	}
	j.c.Only("Job.Cancel")
	return j.job.w.cancel(j.job)
}

// Panicked reports whether the error of done is a panic of work, and not an error that work
// has returned. For the time after done was called.
func (j Job) Panicked() bool { return j.job.failed }

// workers is a pool of goroutines that exist only while there is work.
type workers struct {
	pool        *Pool // nil for the loop's own
	limit, most int   // set before the first job

	mu         sync.Mutex
	queue      lane   // jobs that no worker has begun; guarded by mu
	busy       int    // number of workers; guarded by mu
	unfinished int    // jobs not yet delivered; guarded by mu
	last       *job   // the newest of these; guarded by mu
	delivered  uint64 // jobs with done called; guarded by mu

	full     time.Duration // since when jobs wait for a worker; guarded by mu
	reported bool          // that they do, for long; guarded by mu
}

func (w *workers) add(c *Loop, j *job) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue.waiting() >= w.most {
		return ErrBusy
	}
	if w.busy == w.limit {
		w.noteFull(c)
	}
	j.seq = w.queue.push(j.work)
	w.unfinished++
	if j.prev = w.last; j.prev != nil {
		j.prev.next = j
	}
	w.last = j
	if w.busy < w.limit {
		w.busy++
		c.config.Kernel.Start(func() { w.serve(c) })
	}
	return nil
}

// remove removes a finished job from the list. Called with mu held.
func (w *workers) remove(j *job) {
	w.unfinished--
	if j.prev != nil {
		j.prev.next = j.next
	}
	if j.next != nil {
		j.next.prev = j.prev
	} else {
		w.last = j.prev
	}
	j.prev, j.next = nil, nil // a job that is kept should not keep others
}

// serve is a worker: it runs jobs until there are none. If a job ends the goroutine by
// Goexit, another goroutine replaces it. So it does if a job leaves the goroutine locked
// to its thread: the thread may be in a state that only this job knows, and it ends with
// the goroutine.
func (w *workers) serve(c *Loop) {
	lock := goid.LockWord(goid.Current())
	finished := false
	defer func() {
		if !finished {
			c.config.Kernel.Start(func() { w.serve(c) })
		}
	}()
	for {
		w.mu.Lock()
		job := w.next()
		if job == nil {
			w.busy--
		}
		w.mu.Unlock()
		if job == nil {
			break
		}
		job()
		if *lock != 0 {
			return
		}
	}
	finished = true
}

// next returns the first job that was not cancelled. Called with mu held.
func (w *workers) next() func() {
	for w.queue.len() > 0 {
		if job := w.queue.pop().fn; job != nil {
			return job
		}
	}
	return nil
}

func (w *workers) cancel(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	ok := w.queue.cancel(j.seq)
	if ok {
		w.remove(j)
	}
	return ok
}
