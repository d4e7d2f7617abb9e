// Package supervise restarts tasks that fail, as the supervisors of Erlang do.
//
//	err := supervise.Run(ctx, supervise.Options{Strategy: supervise.RestForOne},
//		supervise.Child{Name: "cache", Start: cache}, // func(ctx context.Context, ready func()) error
//		supervise.Child{Name: "server", Run: serve},  // func(ctx context.Context) error
//	)
//
// Run starts the children in order, each one when the child before it is ready, and stops them
// in the reverse order. With OneForOne, children start while one before them waits for its
// restart. If a child fails or panics, it is restarted, with those that the
// strategy names, after a pause that grows with each failure. If that happens too often, all
// children are stopped, and Run fails with an ErrTooMany: the problem is not one that a
// restart solves, and is the caller's. A child may call Run itself, and so supervisors make a
// tree, in which a failure that a lower one cannot handle goes to the one above.
//
// A child is a task of the loop. To supervise a process, run one in it (package proc). To
// supervise a loop, run one with spindle.Blocking. The examples show both.
//
// spindle.TreeOf and package inspect show the children by their names, with the number of
// their restarts.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/backoff"
)

// Strategy says which children are restarted together.
type Strategy uint8

// The strategies.
const (
	OneForOne  Strategy = iota // the child that has failed
	RestForOne                 // it, and those after it, which may depend on it
	OneForAll                  // all of them
)

// Restart says when a child is restarted.
type Restart uint8

// When a child is restarted.
const (
	OnFailure Restart = iota // if it fails or panics; if it returns nil, it is done
	Always                   // whenever it ends; returning nil counts as a failure
	Never                    // not at all; if it fails, that is logged
)

// Child describes a child. It has either Run or Start.
type Child struct {
	Name string // shown in logs, errors and the tree of tasks

	// Run is the child's function. The child is ready when Run has begun.
	Run func(ctx context.Context) error

	// Start is a function that calls ready when the children after it may start.
	Start func(ctx context.Context, ready func()) error

	Restart Restart

	// StopWithin is how long the child may take to end when the program does. The run
	// waits for it, and for the children before it, which are stopped later. Zero means
	// 5 seconds.
	StopWithin time.Duration
}

// Options configure a supervisor.
type Options struct {
	Strategy Strategy

	// If more than MaxRestarts failures happen within Within, the supervisor fails. Zero
	// means 5 within 10 seconds. A negative number means no limit.
	MaxRestarts int
	Within      time.Duration

	// A child is restarted after FirstPause, and after twice the last pause for each
	// further failure, up to MaxPause. A child that has run for Within begins again with
	// FirstPause. Zero means 100 milliseconds and 10 seconds.
	FirstPause, MaxPause time.Duration

	// Log is where failures are logged that Run does not return. Nil means slog.Default().
	Log *slog.Logger
}

// withDefaults returns the options with their defaults.
func (o Options) withDefaults() Options {
	if o.MaxRestarts == 0 {
		o.MaxRestarts = 5
	}
	orElse := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	orElse(&o.Within, 10*time.Second)
	orElse(&o.FirstPause, 100*time.Millisecond)
	orElse(&o.MaxPause, 10*time.Second)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// ErrTooMany is wrapped by the error of Run when children have failed too often. The error wraps
// the last failure too.
var ErrTooMany = errors.New("supervise: too many failures")

// tooMany is ErrTooMany with the last failure.
type tooMany struct {
	child    string        // that failed last
	failures int           // of all children
	within   time.Duration // the time in which they happened
	err      error         // the last failure
}

func (e *tooMany) Error() string {
	return fmt.Sprintf("supervise: %d failures within %v; the last one: %s: %v", e.failures, e.within, e.child, e.err)
}

func (e *tooMany) Unwrap() []error { return []error{ErrTooMany, e.err} }

// errReturned is the failure of a child that is restarted always, and has returned nil.
var errReturned = errors.New("the child has returned")

// errStopped is the cause of the cancellation of a child.
var errStopped = errors.New("supervise: the child is stopped")

// Run starts the children and restarts those that fail. It returns nil when all are done,
// an ErrTooMany if they fail too often, and the cancellation if ctx ends. Then all children have
// ended, and failures of children that were being stopped are joined to its error.
//
// A child that is done is not started again when others are. A child that ignores its
// cancellation delays the restart of the others, and the end of Run.
func Run(ctx context.Context, o Options, children ...Child) error {
	s := &supervisor{o: o.withDefaults()}
	for _, c := range children {
		s.children = append(s.children, newChild(c, s.o))
	}
	if o.Strategy > OneForAll {
		panic("supervise: Run with an unknown strategy")
	}
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		s.n = n
		err := s.drive(ctx)
		if err != nil { // cancelled
			s.stopAll()
			_ = spindle.Shield(ctx, s.drive)
		} else if s.failure != nil {
			err = s.failure
		}
		return errors.Join(append([]error{err}, s.late...)...)
	})
}

// newChild checks a description, and returns a child that is to be started.
func newChild(c Child, o Options) *child {
	switch {
	case c.Name == "":
		panic("supervise: Run with a child that has no name")
	case (c.Run == nil) == (c.Start == nil):
		panic("supervise: child " + c.Name + " must have either Run or Start")
	case c.Restart > Never:
		panic("supervise: child " + c.Name + " has an unknown value of Restart")
	}
	if c.StopWithin <= 0 {
		c.StopWithin = 5 * time.Second
	}
	return &child{Child: c, pauses: backoff.Backoff{First: o.FirstPause, Most: o.MaxPause}}
}
