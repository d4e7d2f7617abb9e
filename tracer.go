package spindle

import (
	"context"
	"errors"

	"github.com/spindleloop/spindle/tracing"
)

type tracerKey struct{}

// WithTracer returns a context with which Run, RunOn and NurseryOn trace: each task, each
// dial, each request of a web.Transport and each call of package relay in the run gets a span.
// Tasks with TaskOptions.Values get none, because they belong to something else. Outside of
// tasks, NewCaller and Worker.Serve of package relay trace with such a context.
//
// The context of a task with a span is derived from its scope; ScopeOf returns the scope.
func WithTracer(ctx context.Context, t tracing.Tracer) context.Context {
	return context.WithValue(ctx, tracerKey{}, t)
}

// TracerOf returns the tracer of the run that ctx belongs to, or outside of a run the one that
// WithTracer has put into ctx. It returns nil if there is none.
func TracerOf(ctx context.Context) tracing.Tracer {
	if sc := scopeOf(ctx); sc != nil {
		return sc.run.tracer
	}
	return tracerIn(ctx)
}

// tracerIn returns the tracer that WithTracer has put into ctx, or nil.
func tracerIn(ctx context.Context) tracing.Tracer {
	t, _ := ctx.Value(tracerKey{}).(tracing.Tracer)
	return t
}

// errSpanPanicked is the error of a span around code that panicked or called Goexit.
var errSpanPanicked = errors.New("spindle: the task panicked or called runtime.Goexit")

// trace makes the function of t run in a span.
func (t *Task) trace(tracer tracing.Tracer) {
	info := tracing.Span{Kind: "task", Task: t.Name()}
	fn := t.fn
	t.code = t.codeOf()
	t.fn = func(ctx context.Context) (err error) {
		ctx, end := tracer.Start(ctx, info)
		failure := errSpanPanicked
		defer func() { end(tracing.End{Err: failure}) }()
		failure = fn(ctx)
		return failure
	}
}
