package either

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// Nursery owns tasks or goroutines: the call that opened it does not return before all of them
// have ended. If one fails, the others are cancelled.
type Nursery struct {
	tasks      *spindle.Nursery // nil for goroutines
	goroutines *goroutines
}

// WithNursery opens a nursery, calls fn with it, and waits for all that it has started. If fn or
// one of them fails, the others are cancelled. If one panics, WithNursery panics with a
// *spindle.PanicError when the others have ended.
func WithNursery(ctx context.Context, fn func(ctx context.Context, n *Nursery) error) error {
	if inTask(ctx) {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			return fn(ctx, &Nursery{tasks: n})
		})
	}
	g := &goroutines{outside: ctx}
	inside, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g.inside, g.cancel = inside, cancel
	g.run(func(ctx context.Context) error { return fn(ctx, &Nursery{goroutines: g}) })
	g.running.Wait()
	return g.result()
}

// Go starts fn as a task of the nursery, or on a goroutine. Call it while the nursery is open.
func (n *Nursery) Go(fn func(ctx context.Context) error) {
	if n.tasks != nil {
		n.tasks.Go(fn)
		return
	}
	n.goroutines.running.Go(func() { n.goroutines.run(fn) })
}

// goroutines are those of a nursery.
type goroutines struct {
	outside, inside context.Context
	cancel          context.CancelCauseFunc
	running         sync.WaitGroup

	mu    sync.Mutex
	errs  []error             // guarded by mu
	fault *spindle.PanicError // guarded by mu
}

// run calls fn and records how it ended.
func (g *goroutines) run(fn func(context.Context) error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		if v == nil {
			v = loop.ErrGoexit
		}
		fault, ok := v.(*spindle.PanicError)
		if !ok {
			fault = &spindle.PanicError{Value: v, Stack: debug.Stack()}
		}
		g.failed(fault, fault)
	}()
	err := fn(g.inside)
	returned = true
	if err != nil {
		g.failed(err, nil)
	}
}

// failed records a failure, and cancels the others.
func (g *goroutines) failed(err error, fault *spindle.PanicError) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case fault == nil && g.inside.Err() != nil && g.outside.Err() == nil && errors.Is(err, context.Canceled):
		return // cancelled because of another
	case fault == nil:
		g.errs = append(g.errs, err)
	case g.fault == nil:
		g.fault = fault
	}
	g.cancel(context.Canceled)
}

// result returns the errors, when all have ended. It panics if a goroutine did.
func (g *goroutines) result() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.fault != nil:
		panic(g.fault)
	case len(g.errs) > 1:
		return &spindle.Errors{Errs: g.errs}
	case len(g.errs) == 1:
		return g.errs[0]
	}
	return nil
}
