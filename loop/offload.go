package loop

import (
	"runtime/debug"
	"sync"

	"github.com/spindleloop/spindle/internal/goid"
)

// Job names offloaded work. The zero Job names none.
type Job struct {
	l   *Loop
	job *job
}

// Offload runs work on a goroutine and then calls done on the loop with its
// result. It is for what would block the loop: files, name look-ups, long
// computation. Work that panics comes back as a *PanicError. At most
// Options.Workers run at once; the others wait in order, and if too many wait,
// Offload fails with ErrBusy.
//
// It is a function and not a method because Go's methods have no type
// parameters; like the methods it is for the loop's goroutine.
func Offload[T any](l *Loop, work func() (T, error), done func(T, error)) (Job, error) {
	return OffloadWith(l, LoseAtClose, work, done)
}

// OffloadWith is Offload for a job with which Close deals as at says: it reports
// the job as lost, or drops the result. RunAtClose panics, because Close does not
// wait for jobs.
func OffloadWith[T any](l *Loop, at AtClose, work func() (T, error), done func(T, error)) (Job, error) {
	l.only("Offload")
	if work == nil || done == nil {
		panic("loop: Offload with a nil function")
	}
	if at > DropAtClose {
		panic("loop: OffloadWith with RunAtClose: Close does not wait for jobs")
	}
	j := &job{w: &l.workers, code: codeOf(work), dropped: at == DropAtClose}
	j.work = func() {
		var value T
		var err error
		returned := false
		// Deferred, because a Goexit in work does not come back here.
		defer func() {
			if !returned {
				v := recover()
				if v == nil {
					v = ErrGoexit
				}
				err = &PanicError{Value: v, Stack: debug.Stack()}
			}
			j.done = func() { done(value, err) }
			_ = l.post(nil, j) // a loop that is closed has accounted for the job
		}()
		value, err = work()
		returned = true
	}
	if err := l.workers.add(l, j); err != nil {
		return Job{}, err
	}
	return Job{l, j}, nil
}

// job is work that was offloaded, and then its result on the way to the loop.
type job struct {
	w       *workers
	work    func() // and the posting of its result
	done    func() // set by work
	code    uintptr
	dropped bool // Close does not report it

	// Guarded by the workers' mu.
	seq        uint64 // in the queue
	prev, next *job   // among the open ones
}

// Resume delivers the result. It is called by the loop.
func (j *job) Resume() {
	j.w.mu.Lock()
	j.w.forget(j)
	j.w.delivered++
	j.w.mu.Unlock()
	j.done()
}

// Cancel removes a job that no worker has begun, and reports whether it did: then
// done is not called. Work that has begun cannot be stopped from outside.
func (j Job) Cancel() bool {
	if j.l == nil || j.l.owner.Load() == closedOwner {
		return false
	}
	j.l.only("Job.Cancel")
	return j.l.workers.cancel(j.job)
}

// workers is a pool of goroutines that exist only while there is work.
type workers struct {
	limit, most int // set by init

	mu        sync.Mutex
	queue     lane   // jobs that no worker has begun; guarded by mu
	busy      int    // workers; guarded by mu
	open      int    // jobs whose done has not been called; guarded by mu
	delivered uint64 // jobs whose done has been called; guarded by mu
	last      *job   // the newest of these; guarded by mu
}

func (w *workers) init(o Options) {
	w.limit, w.most = o.Workers, o.MaxOffloads
	if w.limit <= 0 {
		w.limit = 32
	}
	if w.most <= 0 {
		w.most = 1 << 16
	}
}

func (w *workers) add(l *Loop, j *job) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue.waiting() >= w.most {
		return ErrBusy
	}
	j.seq = w.queue.push(j.work)
	w.open++
	if j.prev = w.last; j.prev != nil {
		j.prev.next = j
	}
	w.last = j
	if w.busy < w.limit {
		w.busy++
		l.k.Start(func() { w.serve(l) })
	}
	return nil
}

// forget is the end of a job. Called with mu held.
func (w *workers) forget(j *job) {
	w.open--
	if j.prev != nil {
		j.prev.next = j.next
	}
	if j.next != nil {
		j.next.prev = j.prev
	} else {
		w.last = j.prev
	}
}

// serve is a worker: it takes jobs until there are none. If a job ends the
// goroutine by Goexit, another one takes its place. So it does if a job leaves the
// goroutine locked to its thread: the thread may be in a state that only this job knows
// of, and it ends with the goroutine.
func (w *workers) serve(l *Loop) {
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

// next is the first job that was not cancelled. Called with mu held.
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
		w.forget(j)
	}
	return ok
}

func (w *workers) unfinished() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}

// account returns how many jobs are unfinished, and how many were delivered.
func (w *workers) account() (open int, delivered uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open, w.delivered
}

// close drops the jobs that no worker has begun, and adds to lost those whose done
// will not be called: a job is open until then, wherever it is.
func (w *workers) close(lost *LostError) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = lane{}
	first := w.last
	for first != nil && first.prev != nil {
		first = first.prev
	}
	for j := first; j != nil; j = j.next {
		if !j.dropped {
			lost.Jobs++
			lost.add(j.code, true)
		}
	}
	w.last = nil
}
