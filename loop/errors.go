package loop

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed says that the loop was closed.
	ErrClosed = errors.New("loop: closed")
	// ErrRunning says that the loop is running and the call must wait until
	// it does not.
	ErrRunning = errors.New("loop: running")
	// ErrExists says that a descriptor is watched already.
	ErrExists = errors.New("loop: descriptor is watched already")
	// ErrNotWatched says that a watch was cancelled, or never was.
	ErrNotWatched = errors.New("loop: descriptor is not watched")
	// ErrNotPollable says that a descriptor can never be waited for: regular
	// files and directories are always ready. Read them by Offload.
	ErrNotPollable = errors.New("loop: descriptor cannot be polled (a regular file or directory?)")
	// ErrBusy says that too many jobs wait for a worker.
	ErrBusy = errors.New("loop: too many jobs wait for a worker")
	// ErrGoexit is the Value of a *PanicError for a callback that called
	// runtime.Goexit (as t.FailNow does).
	ErrGoexit = errors.New("runtime.Goexit")
)

// OpError tells which operation failed, and on which descriptor.
type OpError struct {
	Op  string
	FD  int // -1 where there is none
	Err error
}

func (e *OpError) Error() string {
	if e.FD < 0 && e.Op != "watch" {
		return fmt.Sprintf("loop: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("loop: %s fd %d: %v", e.Op, e.FD, e.Err)
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// LostError is Close's account of accepted work that will never run.
type LostError struct {
	Callbacks int // scheduled or posted, not yet run
	Jobs      int // offloaded, their results not yet delivered
}

func (e *LostError) Error() string {
	return fmt.Sprintf("loop: closed with %d callbacks not run and %d offloaded jobs not finished", e.Callbacks, e.Jobs)
}

// PanicError is a panic, or a runtime.Goexit, caught in a callback or in
// offloaded work.
type PanicError struct {
	Value any    // what was panicked with; ErrGoexit for runtime.Goexit
	Stack []byte // of the goroutine that panicked, as debug.Stack prints it
}

func (e *PanicError) Error() string {
	if e.Value == ErrGoexit {
		return "loop: callback called runtime.Goexit"
	}
	return fmt.Sprintf("loop: callback panicked: %v", e.Value)
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
