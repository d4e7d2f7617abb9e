package loop

import (
	"runtime/debug"
	"sync"
)

// Job names offloaded work. The zero Job names none.
type Job struct {
	l    *Loop
	seq  uint64
	weak int
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
	return offload(l, work, done, 0)
}

// OffloadWeak is Offload for whoever learns otherwise that done will never be
// called, as by the end of what it works for: then Close does not tell of it as
// lost.
func OffloadWeak[T any](l *Loop, work func() (T, error), done func(T, error)) (Job, error) {
	return offload(l, work, done, 1)
}

func offload[T any](l *Loop, work func() (T, error), done func(T, error), weak int) (Job, error) {
	l.only("Offload")
	if work == nil || done == nil {
		panic("loop: Offload with a nil function")
	}
	return l.workers.add(l, weak, func() {
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
			l.workers.deliver(l, weak, func() { done(value, err) })
		}()
		value, err = work()
		returned = true
	})
}

// Cancel takes back a job that no worker has begun, and tells whether it did:
// then done is not called. Work that has begun cannot be stopped from outside.
func (j Job) Cancel() bool {
	if j.l == nil || j.l.owner.Load() == closedOwner {
		return false
	}
	j.l.only("Job.Cancel")
	return j.l.workers.cancel(j)
}

// workers is a pool of goroutines that exist only while there is work.
type workers struct {
	limit, most int // set by init

	mu    sync.Mutex
	queue lane // jobs no worker has begun; guarded by mu
	busy  int  // workers; guarded by mu
	open  int  // jobs whose done has not been called; guarded by mu
	sent  int  // of these, those whose result is on its way; guarded by mu
	weak  int  // of those whose result is not, those that need not be told of; guarded by mu
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

func (w *workers) add(l *Loop, weak int, job func()) (Job, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue.waiting() >= w.most {
		return Job{}, ErrBusy
	}
	seq := w.queue.push(job)
	w.open++
	w.weak += weak
	if w.busy < w.limit {
		w.busy++
		l.k.Start(func() { w.serve(l) })
	}
	return Job{l, seq, weak}, nil
}

// serve is a worker: it takes jobs until there are none. If a job ends the
// goroutine by Goexit, another one takes its place.
func (w *workers) serve(l *Loop) {
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

func (w *workers) cancel(j Job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	ok := w.queue.cancel(j.seq)
	if ok {
		w.open--
		w.weak -= j.weak
	}
	return ok
}

// deliver sends a result to the loop. If the loop was closed meanwhile, Close
// has already told that the job was lost.
func (w *workers) deliver(l *Loop, weak int, done func()) {
	post := l.Post
	if weak > 0 {
		post = l.PostWeak
	}
	w.mu.Lock()
	w.sent++
	w.weak -= weak
	w.mu.Unlock()
	_ = post(func() {
		w.mu.Lock()
		w.open--
		w.sent--
		w.mu.Unlock()
		done()
	})
}

func (w *workers) unfinished() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}

// close drops the jobs nobody has begun, and tells how many had no result. Those
// whose result was on its way count as callbacks that did not run.
func (w *workers) close() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = lane{}
	return w.open - w.sent - w.weak
}
