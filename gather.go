package spindle

import (
	"context"
	"errors"
	"iter"
)

// ErrNotStarted says that a task ended before it reported that it had started.
var ErrNotStarted = errors.New("spindle: task ended before it had started")

// Gather runs the functions at once and returns their results in order. The
// first failure cancels the others and is returned; so does a cancellation from
// outside. It is asyncio.gather.
func Gather[T any](ctx context.Context, fns ...func(context.Context) (T, error)) ([]T, error) {
	results := make([]T, len(fns))
	err := WithNursery(ctx, func(ctx context.Context, n *Nursery) error {
		for i, fn := range fns {
			n.start(TaskOptions{code: codeOf(fn)}, func(ctx context.Context) (err error) {
				results[i], err = fn(ctx)
				return err
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// Settled is how a function ended that GatherAll has run.
type Settled[T any] struct {
	Value T
	Err   error
}

// GatherAll is Gather that takes failures for results: none cancels another. It
// is asyncio.gather with return_exceptions. Its error is a cancellation from
// outside.
func GatherAll[T any](ctx context.Context, fns ...func(context.Context) (T, error)) ([]Settled[T], error) {
	results := make([]Settled[T], len(fns))
	err := WithNursery(ctx, func(ctx context.Context, n *Nursery) error {
		for i, fn := range fns {
			n.start(TaskOptions{code: codeOf(fn)}, func(ctx context.Context) error {
				results[i].Value, results[i].Err = fn(ctx)
				return nil
			})
		}
		return nil
	})
	if err == nil {
		err = Checkpoint(ctx)
	}
	return results, err
}

// Awaitable is a *Future of any type.
type Awaitable interface {
	Done() bool
	Then(fn func()) (stop func() bool)
	Err() error

	// hasFailed reports whether there is a result and it is an error. Unlike Err
	// it does not count as reading the error.
	hasFailed() bool
}

// Until says how long Wait waits.
type Until uint8

const (
	AllDone      Until = iota // until every future is done
	FirstDone                 // until one is
	FirstFailure              // until one has failed, or every one is done
)

// Wait waits until enough of the futures are done, and tells which are and which
// are not. The others go on: it cancels nothing. It is asyncio.wait; for a
// time-out, put it into MoveOnAfter.
func Wait(ctx context.Context, until Until, futures ...Awaitable) (done, pending []Awaitable, err error) {
	if err := waitEnough(ctx, until, futures); err != nil {
		return nil, nil, err
	}
	for _, f := range futures {
		if f.Done() {
			done = append(done, f)
		} else {
			pending = append(pending, f)
		}
	}
	return done, pending, nil
}

func waitEnough(ctx context.Context, until Until, futures []Awaitable) error {
	enough := func() bool {
		left := 0
		for _, f := range futures {
			switch {
			case !f.Done():
				left++
			case until == FirstDone, until == FirstFailure && f.hasFailed():
				return true
			}
		}
		return left == 0
	}
	if enough() {
		return Checkpoint(ctx)
	}
	waker, err := NewWaker(ctx)
	if err != nil {
		return err
	}
	over := false
	var stops []func() bool
	for _, f := range futures {
		if f.Done() {
			continue
		}
		stops = append(stops, f.Then(func() {
			if !over && enough() {
				over = true
				waker.Wake(nil)
			}
		}))
	}
	err = waker.Park(ctx, "Wait", AbortFunc(func() bool {
		gone := !over
		over = true
		return gone
	}))
	stopAll(stops)
	return err
}

// stopAll calls every function that Then returned.
func stopAll(stops []func() bool) {
	for _, stop := range stops {
		stop()
	}
}

// AsCompleted yields the futures in the order in which they are done. It stops
// early, with an error, when ctx is cancelled.
func AsCompleted(ctx context.Context, futures ...Awaitable) iter.Seq2[Awaitable, error] {
	return func(yield func(Awaitable, error) bool) {
		var order []Awaitable
		var lot Lot
		var stops []func() bool
		defer func() { stopAll(stops) }()
		for _, f := range futures {
			stops = append(stops, f.Then(func() {
				order = append(order, f)
				lot.Wake(1)
			}))
		}
		for next := range futures {
			for len(order) <= next {
				if err := lot.Wait(ctx, "AsCompleted"); err != nil {
					yield(nil, err)
					return
				}
			}
			if !yield(order[next], nil) {
				return
			}
		}
	}
}

// Shield runs fn so that a cancellation from outside does not reach it. When fn
// has ended, the cancellation is still there for the next wait.
func Shield(ctx context.Context, fn func(context.Context) error) error {
	_, err := within(ctx, "Shield", (*Scope).openShielded, func(ctx context.Context, _ *Scope) error { return fn(ctx) })
	return err
}

// Start runs fn as a task of the nursery and waits until it reports, by started,
// that it is under way. If it ends before that, Start fails with its error, or
// with ErrNotStarted; then it is no failure of the nursery. If the caller is
// cancelled before that, so is the task, and Start waits for its end. It is Trio's
// nursery.start.
func Start[T any](ctx context.Context, n *Nursery, fn func(ctx context.Context, started func(T)) error) (T, error) {
	caller(ctx, "Start")
	n.s.only("Start")
	f := NewFuture[T](ctx)
	own := n.scope.open(n.scope)
	n.start(TaskOptions{own: own, code: codeOf(fn)}, func(context.Context) error {
		defer f.Reject(errTaskPanicked) // unless it is done
		err := fn(own, func(v T) {
			if !f.Resolve(v) {
				panic("spindle: a task that Start has started says so twice")
			}
		})
		if f.Done() {
			return err
		}
		if err == nil {
			err = ErrNotStarted
		}
		f.Reject(err)
		return nil
	})
	v, err := f.Await(ctx)
	if f.Done() {
		return v, err
	}
	own.Cancel(err)
	Shield(ctx, func(ctx context.Context) error {
		f.Await(ctx)
		return nil
	})
	return v, err
}
