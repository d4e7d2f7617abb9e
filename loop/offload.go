package loop

import "github.com/spindleloop/spindle/internal/atclose"

// Job identifies offloaded work. The zero Job identifies none.
type Job struct {
	l   *Loop
	job *job
}

// Offload runs work on a goroutine and then calls done on the loop with its result. It is
// for work that would block the loop: files, name lookups, long computations. If work
// panics, done receives a *PanicError. At most Options.Workers jobs run at once, and the
// others wait in order. If too many wait, Offload fails with ErrBusy.
//
// It is a function and not a method because Go's methods have no type parameters. Like
// the methods it is for the loop's goroutine.
func Offload[T any](l *Loop, work func() (T, error), done func(T, error)) (Job, error) {
	if work == nil || done == nil {
		panic("loop: Offload with a nil function")
	}
	var value T
	var err error
	return l.offload(nil, atclose.Report, codeOf(work), func() { value, err = work() }, func(panicked error) {
		if panicked != nil {
			err = panicked
		}
		done(value, err)
	})
}

// Cancel removes a job that no worker has begun, and reports whether it did: then done is
// not called. Work that has begun cannot be stopped from outside.
func (j Job) Cancel() bool {
	if j.l == nil || j.l.isClosed() {
		return false
	}
	j.l.only("Job.Cancel")
	return j.job.w.cancel(j.job)
}
