// Package tracing is the interface to systems that trace: a Tracer makes spans of what a
// program does, and a Context carries the trace from one process to the next. Module inspect/otel
// has a Tracer for OpenTelemetry.
//
// spindle.WithTracer turns tracing on for the tasks, dials, requests and calls of a run. Without a
// Tracer, traces that come with requests go on with what their handlers send:
//
//	t, err := tracing.Parse(r.Header.Get("Traceparent"))
//	reply, err := caller.Call(tracing.With(ctx, t), "resize", image)
//
// All functions may be called by any goroutine.
package tracing

import "context"

// A Tracer makes spans around tasks, dials, HTTP requests and calls of package relay. Its methods
// may be called by any goroutine, and must not block.
type Tracer interface {
	// Start begins a span, inside the one that ctx carries, if there is one. It returns
	// a context that carries the new span, derived from ctx, and the function that ends
	// the span. That is called once.
	//
	// The parent of a span of the kind server or handler is a span of another process, which
	// Of returns. To continue the trace in another process, the new context carries the new
	// span in the same way; see With.
	Start(ctx context.Context, span Span) (_ context.Context, end func(End))
}

// Span describes a span that begins.
type Span struct {
	// Kind is what the span is around:
	//
	//	task     the function of a task
	//	dial     stream.Dial
	//	server   the handler of a request that a web.Server has received
	//	client   a request that a web.Transport makes, up to the header of the response
	//	call     a call of a relay.Caller, up to its end
	//	handler  the handler of a request that a relay.Worker has received
	Kind string

	Task             string // the name of a task
	Network, Address string // of a dial

	// Of a request. A server's path and host are what the client has sent.
	Method, Host, Path string

	Subject string // of a call or a handler of package relay
}

// End describes a span that ends.
type End struct {
	Status int    // of the response to a request; zero if there is none
	Route  string // the pattern of an http.ServeMux that a server's request has matched, such as "GET /users/{id}"; "" for none
	Err    error  // with which the span's work has failed; nil if it has not
}
