// Package otel makes OpenTelemetry spans of what a program does with Spindle: tasks, dials,
// requests that a web.Server answers and requests that a web.Transport makes.
//
//	tracer := otel.NewTracer(provider) // an sdktrace.TracerProvider with an exporter
//	server := &web.Server{Handler: mux, Tracer: tracer}
//	err := spindle.Run(spindle.WithTracer(ctx, tracer), func(ctx context.Context) error {
//		return server.ListenAndServe(ctx, "127.0.0.1:8080")
//	})
//
// Traces go from process to process in the header traceparent of W3C. The span of a task or
// a request is in its context, so trace.SpanFromContext finds it, and spans that the program
// makes itself are inside it.
//
// It is a module of its own, so that Spindle does not depend on OpenTelemetry.
package otel

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
)

// NewTracer returns a tracer for spindle.WithTracer and web.Server.Tracer. Its spans go to
// the provider.
func NewTracer(p trace.TracerProvider) spindle.Tracer {
	return &tracer{p.Tracer("github.com/spindleloop/spindle/inspect/otel")}
}

type tracer struct{ t trace.Tracer }

// Start begins a span. The kind of a task is internal; its attributes follow OpenTelemetry's
// semantic conventions where there are any.
func (t *tracer) Start(ctx context.Context, s spindle.SpanInfo) (context.Context, func(int, error)) {
	var o []trace.SpanStartOption
	var name string
	switch s.Kind {
	case spindle.SpanTask:
		name = s.Task
	case spindle.SpanDial:
		name = "dial " + s.Network
		o = append(o, trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(attribute.String("network.transport", s.Network), attribute.String("network.peer.address", s.Address)))
	case spindle.SpanServer:
		name = s.Method
		ctx = remote(ctx)
		o = append(o, trace.WithSpanKind(trace.SpanKindServer), request(&s))
	case spindle.SpanClient:
		name = s.Method
		o = append(o, trace.WithSpanKind(trace.SpanKindClient), request(&s))
	}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = remote(ctx) // a request of a server without a tracer
	}
	ctx, span := t.t.Start(ctx, name, o...)
	if sc := span.SpanContext(); sc.IsValid() {
		ctx = web.WithTraceparent(ctx, "00-"+sc.TraceID().String()+"-"+sc.SpanID().String()+"-"+sc.TraceFlags().String(), sc.TraceState().String())
	}
	return ctx, func(status int, err error) { end(span, s.Kind, status, err) }
}

// request returns the attributes of a request.
func request(s *spindle.SpanInfo) trace.SpanStartEventOption {
	all := []attribute.KeyValue{attribute.String("http.request.method", s.Method), attribute.String("url.path", s.Path)}
	host, port, err := net.SplitHostPort(s.Host)
	if err != nil {
		host = s.Host
	}
	all = append(all, attribute.String("server.address", host))
	if n, err := strconv.Atoi(port); err == nil {
		all = append(all, attribute.Int("server.port", n))
	}
	return trace.WithAttributes(all...)
}

// end ends a span. A cancelled task has not failed.
func end(span trace.Span, kind spindle.SpanKind, status int, err error) {
	if status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	var canceled *spindle.Canceled
	switch {
	case errors.As(err, &canceled):
		span.SetAttributes(attribute.Bool("spindle.cancelled", true))
	case err != nil:
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	case status >= 500, status >= 400 && kind == spindle.SpanClient:
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// remote returns a context with the span that web.Traceparent names as that of another process.
func remote(ctx context.Context) context.Context {
	parent, state := web.Traceparent(ctx)
	if parent == "" {
		return ctx
	}
	var id trace.TraceID
	var span trace.SpanID
	var flags [1]byte
	// The value is well-formed: 00-trace-span-flags.
	_, _ = hex.Decode(id[:], []byte(parent[3:35]))
	_, _ = hex.Decode(span[:], []byte(parent[36:52]))
	_, _ = hex.Decode(flags[:], []byte(parent[53:55]))
	ts, _ := trace.ParseTraceState(state) // empty if it is malformed
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: span, TraceFlags: trace.TraceFlags(flags[0]), TraceState: ts, Remote: true,
	}))
}
