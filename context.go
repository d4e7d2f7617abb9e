package spindle

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/perloop"
	"github.com/spindleloop/spindle/loop"
)

// A Scope is a context.Context. The context package works with the scope's standard
// context, which it has made itself and which ends with the scope: Done returns the channel
// of the standard context, and Value returns it for the package's private key, an *int. So
// derived contexts are linked to it directly, without a goroutine, and context.Cause finds
// the cause. Design 019 has the laws.

// contextState is the state of a scope as a context. Any goroutine.
type contextState struct {
	why atomic.Pointer[Canceled] // nil until the context ends; set once, under mu
	std atomic.Pointer[standard] // made when first needed, under mu
	mu  sync.Mutex
}

// end ends the context. It reports false if it has ended before.
func (o *contextState) end(why *Canceled) bool {
	if o.why.Load() != nil { // only the loop sets it
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.why.Store(why)
	if std := o.std.Load(); std != nil {
		std.cancel()
	}
	return true
}

// standard returns the standard context.
func (o *contextState) standard() *standard {
	if std := o.std.Load(); std != nil {
		return std
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	std := o.std.Load()
	if std == nil {
		std = newStandard(o)
		if o.why.Load() != nil {
			std.cancel()
		}
		o.std.Store(std)
	}
	return std
}

// standard is a scope's standard context.
type standard struct {
	context.Context
	scope  *contextState
	cancel func() // cancels it with the error and the cause of the scope
}

func newStandard(o *contextState) *standard {
	std := &standard{scope: o}
	ctx, cancel := context.WithCancel((*trigger)(std))
	_ = cancel // it would always end with context.Canceled
	std.Context = ctx
	return std
}

// trigger is the parent of a scope's standard context. When the standard context is made,
// the context package passes the function that cancels it to AfterFunc. That function reads
// Err and the cause of the trigger. A standard context cannot end in any other way with
// context.DeadlineExceeded at a time that is not known in advance.
type trigger standard

// AfterFunc is called once, when the standard context is made.
func (tr *trigger) AfterFunc(cancel func()) (stop func() bool) {
	tr.cancel = cancel
	return func() bool { return true }
}

// unending is the Done channel of every trigger. Nothing waits for it.
var unending = make(chan struct{})

func (*trigger) Done() <-chan struct{}           { return unending }
func (*trigger) Deadline() (_ time.Time, _ bool) { return }

// Err is called when the scope has ended.
func (tr *trigger) Err() error { return tr.scope.why.Load().kind() }

// Value is called by context.Cause, which looks for a standard context with a cause.
func (tr *trigger) Value(key any) any {
	why := tr.scope.why.Load()
	if why == nil || why.Cause == why.kind() {
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why.Cause)
	return ctx.Value(key)
}

// Done returns a channel that is closed when the scope is cancelled, by itself or
// from outside, or has ended.
func (sc *Scope) Done() <-chan struct{} { return sc.contextState.standard().Done() }

// Err returns nil until the scope is cancelled or has ended, and then context.Canceled or
// context.DeadlineExceeded.
func (sc *Scope) Err() error {
	why := sc.contextState.why.Load()
	if why == nil {
		return nil
	}
	sc.contextState.mu.Lock() // once end has released it, Done is closed
	defer sc.contextState.mu.Unlock()
	return why.kind()
}

// Value looks key up in the contexts around.
func (sc *Scope) Value(key any) any {
	switch key.(type) {
	case scopeKey:
		return sc
	case coro.Key:
		return &sc.s.core
	case *int:
		if v := sc.contextState.standard().Value(key); v != nil {
			return v
		}
	}
	return sc.values.Value(key)
}

// endsWith reports whether ctx, which was derived from sc, ends exactly when sc does:
// it is sc, or adds values to it.
func (sc *Scope) endsWith(ctx context.Context) bool {
	return ctx == context.Context(sc) || ctx.Done() == sc.Done()
}

// Deadline returns the nearest deadline in force: of the scope itself, and of the
// scopes and standard contexts around it up to a shield.
func (sc *Scope) Deadline() (when time.Time, ok bool) {
	nearest, at := sc.deadline.Load(), sc
	for at.parent != nil && !at.shielded.Load() {
		at = at.parent
		nearest = min(nearest, at.deadline.Load())
	}
	if nearest != noDeadline {
		when, ok = timeOf(sc.s.l, time.Duration(nearest)), true
	}
	if at.parent == nil {
		if outer, has := at.values.Deadline(); has && (!ok || outer.Before(when)) {
			return outer, true
		}
	}
	return when, ok
}

// LoopOf returns the loop that ctx belongs to.
func LoopOf(ctx context.Context) *loop.Loop {
	if sc, ok := ctx.(*Scope); ok {
		return sc.s.l
	}
	return loopOf(ctx)
}

func loopOf(ctx context.Context) *loop.Loop {
	scope := scopeOf(ctx)
	if scope == nil {
		panic(notInTask("LoopOf"))
	}
	return scope.s.l
}

// Rand returns the source of random numbers of the loop that ctx belongs to. In a simulated
// run it is seeded from the seed of the run, so that the same seed draws the same numbers.
// Otherwise the operating system seeds it. All tasks of a loop share its source. It is for
// tasks and callbacks of the loop.
//
// It is not for secrets: use crypto/rand for those.
func Rand(ctx context.Context) *rand.Rand {
	scope := scopeOf(ctx)
	if scope == nil {
		panic(notInTask("Rand"))
	}
	scope.s.only("Rand")
	l := scope.s.l
	return sources.Get(l, func() *rand.Rand {
		k := l.Internal().Kernel()
		return rand.New(rand.NewPCG(k.Uint64(), k.Uint64()))
	})
}

var sources perloop.Values[rand.Rand]
