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
	"encoding/hex"
	"errors"
	"net"
	"strconv"
	"strings"

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
func (t *tracer) Start(ctx context.Context, s spindle.SpanInfo) (context.Context, func(spindle.SpanEnd)) {
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
		o = append(o, trace.WithSpanKind(trace.SpanKindServer), request(&s))
	case spindle.SpanClient:
		name = s.Method
		o = append(o, trace.WithSpanKind(trace.SpanKindClient), request(&s))
	case spindle.SpanCall:
		name = "call " + s.Subject
		o = append(o, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.String("messaging.destination.name", s.Subject)))
	case spindle.SpanHandler:
		name = "handle " + s.Subject
		o = append(o, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("messaging.destination.name", s.Subject)))
	}
	ctx, span := t.t.Start(withParent(ctx, s.Kind), name, o...)
	if sc := span.SpanContext(); sc.IsValid() {
		own := "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" + sc.TraceFlags().String()
		ctx = context.WithValue(web.WithTraceparent(ctx, own, sc.TraceState().String()), ownKey{}, own)
	}
	return ctx, func(e spindle.SpanEnd) { end(span, &s, &e) }
}

// ownKey is the key of the traceparent that the latest span of this package has put into a context.
type ownKey struct{}

// withParent returns a context with the parent of a span that begins. That is the span of
// OpenTelemetry in ctx, which the program may have started itself. But it is the one that
// web.Traceparent returns if the span begins in this process, or the program has changed the
// traceparent of the context since the last span of this package.
func withParent(ctx context.Context, kind spindle.SpanKind) context.Context {
	parent, state := web.Traceparent(ctx)
	own, _ := ctx.Value(ownKey{}).(string)
	entry := kind == spindle.SpanServer || kind == spindle.SpanHandler
	switch {
	case parent == "" && kind == spindle.SpanHandler: // of a request without a trace, but ctx may have that of Worker.Serve
		return trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	case parent == "":
		return ctx
	case entry, own != "" && parent != own, !trace.SpanContextFromContext(ctx).IsValid():
		return remote(ctx, parent, state)
	}
	return ctx
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
func end(span trace.Span, s *spindle.SpanInfo, e *spindle.SpanEnd) {
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
	case status >= 500, status >= 400 && s.Kind == spindle.SpanClient:
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

// remote returns a context with the span of another process that a traceparent names.
func remote(ctx context.Context, parent, state string) context.Context {
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
