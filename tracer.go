package spindle

import (
	"context"
	"errors"
)

// A Tracer makes spans around tasks, dials and HTTP requests. Package inspect/otel has one
// for OpenTelemetry. Its methods may be called by any goroutine, and must not block.
type Tracer interface {
	// Start begins a span, inside the one that ctx carries, if there is one. It returns
	// a context that carries the new span, derived from ctx, and the function that ends
	// the span. That is called once, with the status of the response if there is one, and
	// the error with which the span's work has failed, or nil.
	//
	// To continue the trace in another process, the context carries the span for package
	// web as well; see web.WithTraceparent.
	Start(ctx context.Context, span SpanInfo) (_ context.Context, end func(status int, err error))
}

// SpanInfo describes a span that begins.
type SpanInfo struct {
	Kind SpanKind

	Task             string // the name of a task
	Network, Address string // of a dial

	// Of a request. A server's path and host are what the client has sent.
	Method, Host, Path string
}

// SpanKind is what a span is around.
type SpanKind uint8

// The kinds of spans.
const (
	SpanTask   SpanKind = iota // the function of a task
	SpanDial                   // stream.Dial
	SpanServer                 // the handler of a request that a web.Server has received
	SpanClient                 // a request that a web.Transport makes, up to the header of the response
)

type tracerKey struct{}

// WithTracer returns a context with which Run, RunOn and NurseryOn trace: each task, each
// dial and each request of a web.Transport in the run gets a span. Tasks with
// TaskOptions.Values get none, because they belong to something else.
//
// The context of a task with a span is derived from its scope; ScopeOf returns the scope.
func WithTracer(ctx context.Context, t Tracer) context.Context {
	return context.WithValue(ctx, tracerKey{}, t)
}

// TracerOf returns the tracer of the run that ctx belongs to, or nil.
func TracerOf(ctx context.Context) Tracer {
	if sc := scopeOf(ctx); sc != nil {
		return sc.run.tracer
	}
	return nil
}

// tracerIn returns the tracer that WithTracer has put into ctx, or nil.
func tracerIn(ctx context.Context) Tracer {
	t, _ := ctx.Value(tracerKey{}).(Tracer)
	return t
}

// errSpanPanicked is the error of a span around code that panicked or called Goexit.
var errSpanPanicked = errors.New("spindle: the task panicked or called runtime.Goexit")

// trace makes the function of t run in a span.
func (t *Task) trace(tracer Tracer) {
	info := SpanInfo{Kind: SpanTask, Task: t.Name()}
	fn := t.fn
	t.code = t.codeOf()
	t.fn = func(ctx context.Context) (err error) {
		ctx, end := tracer.Start(ctx, info)
		failure := errSpanPanicked
		defer func() { end(0, failure) }()
		failure = fn(ctx)
		return failure
	}
}
