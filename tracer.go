package spindle

import (
	"context"
	"errors"
)

// A Tracer makes spans around tasks, dials, HTTP requests and calls of package relay. Package
// inspect/otel has one for OpenTelemetry. Its methods may be called by any goroutine, and must not block.
type Tracer interface {
	// Start begins a span, inside the one that ctx carries, if there is one. It returns
	// a context that carries the new span, derived from ctx, and the function that ends
	// the span. That is called once.
	//
	// The parent of a SpanServer or a SpanHandler is a span of another process, which
	// web.Traceparent returns. To continue the trace in another process, the new context
	// carries the new span in the same way; see web.WithTraceparent.
	Start(ctx context.Context, span SpanInfo) (_ context.Context, end func(SpanEnd))
}

// SpanInfo describes a span that begins.
type SpanInfo struct {
	Kind SpanKind

	Task             string // the name of a task
	Network, Address string // of a dial

	// Of a request. A server's path and host are what the client has sent.
	Method, Host, Path string

	Subject string // of a call or a handler of package relay
}

// SpanEnd describes a span that ends.
type SpanEnd struct {
	Status int    // of the response to a request; zero if there is none
	Route  string // the pattern of an http.ServeMux that a server's request has matched, such as "GET /users/{id}"; "" for none
	Err    error  // with which the span's work has failed; nil if it has not
}

// SpanKind is what a span is around.
type SpanKind uint8

// The kinds of spans.
const (
	SpanTask    SpanKind = iota // the function of a task
	SpanDial                    // stream.Dial
	SpanServer                  // the handler of a request that a web.Server has received
	SpanClient                  // a request that a web.Transport makes, up to the header of the response
	SpanCall                    // a call of a relay.Caller, up to its end
	SpanHandler                 // the handler of a request that a relay.Worker has received
)

type tracerKey struct{}

// WithTracer returns a context with which Run, RunOn and NurseryOn trace: each task, each
// dial, each request of a web.Transport and each call of package relay in the run gets a span.
// Tasks with TaskOptions.Values get none, because they belong to something else. Outside of
// tasks, NewCaller and Worker.Serve of package relay trace with such a context.
//
// The context of a task with a span is derived from its scope; ScopeOf returns the scope.
func WithTracer(ctx context.Context, t Tracer) context.Context {
	return context.WithValue(ctx, tracerKey{}, t)
}

// TracerOf returns the tracer of the run that ctx belongs to, or outside of a run the one that
// WithTracer has put into ctx. It returns nil if there is none.
func TracerOf(ctx context.Context) Tracer {
	if sc := scopeOf(ctx); sc != nil {
		return sc.run.tracer
	}
	return tracerIn(ctx)
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
		defer func() { end(SpanEnd{Err: failure}) }()
		failure = fn(ctx)
		return failure
	}
}
