package spindle

import (
	"context"
	"iter"
)

// Gather runs the functions concurrently and returns their results in order. The first
// failure cancels the other functions and is returned. It is asyncio.gather.
func Gather[T any](ctx context.Context, fns ...func(context.Context) (T, error)) ([]T, error) {
	results, next := make([]T, len(fns)), 0
	err := gather(ctx, fns, func(ctx context.Context) (err error) {
		i := next
		next++
		results[i], err = fns[i](ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// GatherAll runs the functions concurrently and returns the result and the failure of each, in
// order: failures[i] is nil if fns[i] has not failed. A failure does not cancel the other
// functions. GatherAll itself fails only if ctx is cancelled. It is asyncio.gather with
// return_exceptions.
func GatherAll[T any](ctx context.Context, fns ...func(context.Context) (T, error)) (results []T, failures []error, err error) {
	next := 0
	results, failures = make([]T, len(fns)), make([]error, len(fns))
	err = gather(ctx, fns, func(ctx context.Context) error {
		i := next
		next++
		results[i], failures[i] = fns[i](ctx)
		return nil
	})
	if err == nil {
		err = Checkpoint(ctx)
	}
	return results, failures, err
}

// gather runs one in as many tasks as there are fns, and names each after one of them. One
// calls the next of fns each time: tasks begin in the order in which they were started. A
// closure for each task would be most of what Gather allocates.
func gather[F any](ctx context.Context, fns []F, one func(context.Context) error) error {
	return WithNursery(ctx, func(ctx context.Context, n *Nursery) error {
		for _, fn := range fns {
			n.start(&TaskOptions{code: codeOf(fn)}, one)
		}
		return nil
	})
}

// ForEach calls fn for every item, in tasks, with at most limit calls at a time, and
// waits for all of them. Calls begin in the order of the items. The first failure
// cancels the calls under way and is returned; no further ones begin. It panics if the
// limit is below 1.
func ForEach[T any](ctx context.Context, limit int, items []T, fn func(context.Context, T) error) error {
	return forEach(ctx, "ForEach", limit, len(items), codeOf(fn), func(ctx context.Context, i int) error {
		return fn(ctx, items[i])
	})
}

// Map is ForEach for a function with a result. It returns the results in the order of
// the items.
func Map[T, R any](ctx context.Context, limit int, items []T, fn func(context.Context, T) (R, error)) ([]R, error) {
	results := make([]R, len(items))
	err := forEach(ctx, "Map", limit, len(items), codeOf(fn), func(ctx context.Context, i int) (err error) {
		results[i], err = fn(ctx, items[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// forEach calls call with 0 to n-1. Each task takes the next number when a call has
// returned, so that there are never more tasks than the limit.
func forEach(ctx context.Context, op string, limit, n int, code uintptr, call func(context.Context, int) error) error {
	if limit < 1 {
		panic("spindle: " + op + " with a limit below 1")
	}
	next := 0
	worker := func(ctx context.Context) error {
		for next < n {
			// The calls of other tasks may have failed before this one began, and
			// while the Checkpoint below has let them run.
			if by := scopeOf(ctx).canceledBy; by != nil {
				return by.canceled
			}
			i := next
			next++
			if err := call(ctx, i); err != nil {
				return err
			}
			if err := Checkpoint(ctx); err != nil { // a call need not wait
				return err
			}
		}
		return nil
	}
	return WithNursery(ctx, func(ctx context.Context, nursery *Nursery) error {
		for range min(limit, n) {
			nursery.start(&TaskOptions{code: code}, worker)
		}
		return nil
	})
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

// Until is how long Wait waits.
type Until uint8

const (
	AllDone      Until = iota // until every future is done
	FirstDone                 // until one future is done
	FirstFailure              // until one future has failed, or every one is done
)

// Wait waits until enough of the futures are done, and returns those that are done and
// those that are not. It cancels nothing. For a time-out, call it in MoveOnAfter. It is
// asyncio.wait.
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

// waitEnough waits until the condition of Wait holds.
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

// AsCompleted yields the futures in the order in which they are completed. If ctx is
// cancelled, it yields an error and stops.
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
