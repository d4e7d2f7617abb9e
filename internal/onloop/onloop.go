// Package onloop calls functions on a loop for goroutines that wait for the result.
package onloop

import (
	"errors"
	"sync/atomic"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/workers"
	"github.com/spindleloop/spindle/loop"
)

// ErrStopped is the error of a call that was given up before it started.
var ErrStopped = errors.New("onloop: stopped before the call started")

// Call calls start on l, and waits until done was called on l. It returns the value
// that done was called with. Done may be called once, by start or later.
//
// If stop is closed before start was called, start will not be called, and Call fails
// with ErrStopped. Once start was called, it may use the caller's memory, and Call waits
// for done. If l closes first, Call fails with loop.ErrClosed.
//
// The caller must not be on l, which could not run start while it waits.
func Call[T any](l *loop.Loop, stop <-chan struct{}, start func(done func(T))) (T, error) {
	var zero T
	result := make(chan T, 1)
	var claimed atomic.Bool // set by the loop before start, or by the caller that gives up
	if err := l.Internal().Post(atclose.Drop, func() {
		if claimed.CompareAndSwap(false, true) {
			start(func(value T) { result <- value })
		}
	}); err != nil {
		return zero, err
	}
	for {
		select {
		case value := <-result:
			return value, nil
		case <-stop: // the loop may not run again
			if claimed.CompareAndSwap(false, true) {
				return zero, ErrStopped
			}
			stop = nil
		case <-l.Done(): // runs nothing any more, but done may have been called before
			select {
			case value := <-result:
				return value, nil
			default:
				return zero, loop.ErrClosed
			}
		}
	}
}

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
