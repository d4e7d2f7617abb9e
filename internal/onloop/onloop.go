// Package onloop is the way between a loop and other goroutines. A Parker is where a task or a
// goroutine waits for another one, Call runs a function on a loop and waits for its result, and
// Offload runs one on a worker of a loop.
package onloop

import (
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/workers"
	"github.com/spindleloop/spindle/loop"
)

// Offload runs work on a worker of the pool, nil for the loop's own, and then calls done on
// the loop with its result, like loop.Offload. Close treats an unfinished job as at says.
func Offload[T any](l *loop.Loop, pool *workers.Pool, at atclose.Kind, work func() (T, error), done func(T, error)) (loop.Job, error) {
	var value T
	var err error
	return l.Internal().Offload(pool, at, work, func() { value, err = work() }, func(panicked error) {
		if panicked != nil {
			err = panicked
		}
		done(value, err)
	})
}
