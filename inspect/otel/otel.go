// Package otel makes OpenTelemetry spans of what a program does with Spindle: tasks, dials,
// requests that a web.Server answers, requests that a web.Transport makes, and calls of package
// relay on both sides.
//
//	tracer := otel.NewTracer(provider) // an sdktrace.TracerProvider with an exporter
//	server := &web.Server{Handler: mux, Tracer: tracer}
//	err := spindle.Run(spindle.WithTracer(ctx, tracer), func(ctx context.Context) error {
//		return server.ListenAndServe(ctx, "127.0.0.1:8080")
//	})
//
// Traces go from process to process in the headers traceparent and tracestate of W3C. The span of
// a task, a request or a handler is in its context, so trace.SpanFromContext finds it, and spans that the program
// makes itself are inside it.
//
// It is a module of its own, so that Spindle does not depend on OpenTelemetry.
package otel

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/tracing"
)

// NewTracer returns a tracer for spindle.WithTracer and web.Server.Tracer. Its spans go to
// the provider.
func NewTracer(p trace.TracerProvider) tracing.Tracer {
	return &tracer{p.Tracer("github.com/spindleloop/spindle/inspect/otel")}
}

type tracer struct{ t trace.Tracer }

// Start begins a span. The kind of a task is internal; its attributes follow OpenTelemetry's
// semantic conventions where there are any.
func (t *tracer) Start(ctx context.Context, s tracing.Span) (context.Context, func(tracing.End)) {
	var o []trace.SpanStartOption
	var name string
	switch s.Kind {
	case "task":
		name = s.Task
	case "dial":
		name = "dial " + s.Network
		o = append(o, trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(attribute.String("network.transport", s.Network), attribute.String("network.peer.address", s.Address)))
	case "server":
		name = s.Method
		o = append(o, trace.WithSpanKind(trace.SpanKindServer), request(&s))
	case "client":
		name = s.Method
		o = append(o, trace.WithSpanKind(trace.SpanKindClient), request(&s))
	case "call":
		name = "call " + s.Subject
		o = append(o, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.String("messaging.destination.name", s.Subject)))
	case "handler":
		name = "handle " + s.Subject
		o = append(o, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("messaging.destination.name", s.Subject)))
	}
	ctx, span := t.t.Start(withParent(ctx, s.Kind), name, o...)
	if sc := span.SpanContext(); sc.IsValid() {
		own := tracing.Context{ID: sc.TraceID(), Span: sc.SpanID(), Flags: byte(sc.TraceFlags()), State: sc.TraceState().String()}
		ctx = context.WithValue(tracing.With(ctx, own), ownKey{}, own)
	}
	return ctx, func(e tracing.End) { end(span, &s, &e) }
}

// ownKey is the key of the trace that the latest span of this package has put into a context.
type ownKey struct{}

// withParent returns a context with the parent of a span that begins. That is the span of
// OpenTelemetry in ctx, which the program may have started itself. But it is the one that
// tracing.Of returns if the span begins in this process, or the program has changed the
// trace of the context since the last span of this package.
func withParent(ctx context.Context, kind string) context.Context {
	parent, none := tracing.Of(ctx), tracing.Context{}
	own, _ := ctx.Value(ownKey{}).(tracing.Context)
	entry := kind == "server" || kind == "handler"
	switch {
	case parent == none && kind == "handler": // of a request without a trace, but ctx may have that of Worker.Serve
		return trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	case parent == none:
		return ctx
	case entry, own != none && parent != own, !trace.SpanContextFromContext(ctx).IsValid():
		return remote(ctx, parent)
	}
	return ctx
}

// request returns the attributes of a request.
func request(s *tracing.Span) trace.SpanStartEventOption {
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
func end(span trace.Span, s *tracing.Span, e *tracing.End) {
	status, err := e.Status, e.Err
	if status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	if path := pathOf(e.Route); path != "" {
		span.SetName(s.Method + " " + path)
		span.SetAttributes(attribute.String("http.route", path))
	}
	var canceled *spindle.Canceled
	switch {
	case errors.As(err, &canceled):
		span.SetAttributes(attribute.Bool("spindle.cancelled", true))
	case err != nil:
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	case status >= 500, status >= 400 && s.Kind == "client":
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// pathOf returns the path of a pattern of http.ServeMux, without the method and the host.
func pathOf(pattern string) string {
	if at := strings.IndexByte(pattern, '/'); at >= 0 {
		return pattern[at:]
	}
	return ""
}

// remote returns a context with the span of another process.
func remote(ctx context.Context, parent tracing.Context) context.Context {
	state, _ := trace.ParseTraceState(parent.State) // empty if it is malformed
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: parent.ID, SpanID: parent.Span, TraceFlags: trace.TraceFlags(parent.Flags), TraceState: state, Remote: true,
	}))
}
