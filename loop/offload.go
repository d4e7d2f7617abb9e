package loop

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/spindleloop/spindle/internal/loopcore"
)

// Job identifies offloaded work. The zero Job identifies none.
type Job struct{ job loopcore.Job }

// Offload runs work on a goroutine and then calls done on the loop with its result. It is
// for work that would block the loop: files, name lookups, long computations. If work
// panics, done receives a *PanicError. At most Options.Workers jobs run at once, and the
// others wait in order. If too many wait, Offload fails with ErrBusy.
//
// It is a function and not a method because Go's methods have no type parameters. Like
// the methods it is for the loop's goroutine.
func Offload[T any](l *Loop, work func() (T, error), done func(T, error)) (Job, error) {
	j, err := loopcore.Offload(&l.core, nil, loopcore.ReportAtClose, work, done)
	return Job{j}, err
}

// Cancel removes a job that no worker has begun, and reports whether it did: then done is
// not called. Work that has begun cannot be stopped from outside.
func (j Job) Cancel() bool { return j.job.Cancel() }

// logFull logs that the workers of a loop, or of a pool, are not enough.
func logFull(pool *loopcore.Pool, limit, waiting int, since time.Duration) {
	which := fmt.Sprintf("all %d workers (loop.Options.Workers)", limit)
	if pool != nil {
		which = fmt.Sprintf("all %d workers of pool %q", limit, pool.Name)
	}
	slog.Warn(fmt.Sprintf("loop: %s are busy; %d jobs wait, the first for %v. Slow calls delay all others of their pool: "+
		"raise its limit, or give them a pool of their own (spindle.Pool).", which, waiting, since.Round(time.Millisecond)))
}
