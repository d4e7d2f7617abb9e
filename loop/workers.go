package loop

import (
	"reflect"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/workers"
)

// offload runs work on a worker of the pool, nil for the loop's own, and then calls done on the
// loop. If work panics or calls runtime.Goexit, done receives that as a *PanicError. The code
// is what Close reports, unless at says that it drops the job.
func (l *Loop) offload(pool *workers.Pool, at atclose.Kind, code uintptr, work func(), done func(panicked error)) (Job, error) {
	l.only("Offload")
	if at > atclose.Drop {
		panic("loop: Offload with atclose.Run: Close does not wait for jobs")
	}
	j := &job{w: l.poolOf(pool), code: code, dropped: at == atclose.Drop, done: done}
	j.work = func() {
		returned := false
		// Deferred, because a Goexit in work does not come back here.
		defer func() {
			if !returned {
				v := recover()
				if v == nil {
					v = ErrGoexit
				}
				j.panicked = &PanicError{Value: v, Stack: debug.Stack()}
			}
			_ = l.postEntry(nil, j) // a closed loop has accounted for the job
		}()
		work()
		returned = true
	}
	if err := j.w.add(l, j); err != nil {
		return Job{}, err
	}
	return Job{l, j}, nil
}

// codeOf returns the address of a function's code.
func codeOf(fn any) uintptr { return reflect.ValueOf(fn).Pointer() }

// job is offloaded work, and then its result on the way to the loop.
type job struct {
	w        *workerPool
	work     func() // also posts the result
	done     func(panicked error)
	panicked error // by work
	code     uintptr
	dropped  bool // Close does not report it

	// Guarded by the pool's mu.
	seq        uint64 // in the queue
	prev, next *job   // in the list of unfinished jobs
}

// Resume delivers the result. The loop calls it.
func (j *job) Resume() {
	j.w.mu.Lock()
	j.w.remove(j)
	j.w.delivered++
	j.w.mu.Unlock()
	j.done(j.panicked)
}

// workerPool is a pool of goroutines that exist only while there is work.
type workerPool struct {
	pool        *workers.Pool // nil for the loop's own
	limit, most int           // set before the first job

	mu         sync.Mutex
	queue      lane   // jobs that no worker has begun; guarded by mu
	busy       int    // number of workers; guarded by mu
	unfinished int    // jobs not yet delivered; guarded by mu
	last       *job   // the newest of these; guarded by mu
	delivered  uint64 // jobs with done called; guarded by mu

	full     time.Duration // since when jobs wait for a worker; guarded by mu
	reported bool          // that they do, for long; guarded by mu
}

func (w *workerPool) add(l *Loop, j *job) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue.waiting() >= w.most {
		return ErrBusy
	}
	if w.busy == w.limit {
		w.noteFull(l)
	}
	j.seq = w.queue.push(j.work)
	w.unfinished++
	if j.prev = w.last; j.prev != nil {
		j.prev.next = j
	}
	w.last = j
	if w.busy < w.limit {
		if w.busy++; w.busy == w.limit {
			w.full = l.k.Mono() // the next job waits, even if no worker has begun
		}
		l.k.Start(func() { w.serve(l) })
	}
	return nil
}

// remove removes a finished job from the list. Called with mu held.
func (w *workerPool) remove(j *job) {
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
func (w *workerPool) serve(l *Loop) {
	lock := goid.LockWord(goid.Current())
	finished := false
	defer func() {
		if !finished {
			l.k.Start(func() { w.serve(l) })
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
func (w *workerPool) next() func() {
	for w.queue.len() > 0 {
		if job := w.queue.pop().fn; job != nil {
			return job
		}
	}
	return nil
}

func (w *workerPool) cancel(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	ok := w.queue.cancel(j.seq)
	if ok {
		w.remove(j)
	}
	return ok
}
