package relay

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/traceparent"
)

// Trace is a W3C trace context: the identity of a trace, of the sender's span in it, the
// trace flags, and the value of the header tracestate. The zero Trace is none.
type Trace struct {
	ID    [16]byte
	Span  [8]byte
	Flags byte
	State string
}

// ParseTrace parses the value of a traceparent header.
func ParseTrace(s string) (Trace, error) {
	sp, err := traceparent.Parse(s)
	if err != nil {
		return Trace{}, fmt.Errorf("relay: %w", err)
	}
	return traceOf(sp, ""), nil
}

func traceOf(sp traceparent.Span, state string) Trace {
	return Trace{ID: sp.Trace, Span: sp.ID, Flags: sp.Flags, State: state}
}

func (t Trace) span() traceparent.Span {
	return traceparent.Span{Trace: t.ID, ID: t.Span, Flags: t.Flags}
}

// String returns the trace as the value of a traceparent header; "" for none.
func (t Trace) String() string { return t.span().String() }

// id returns the ID in hexadecimal; "" for none.
func (t Trace) id() string {
	if t.ID == [16]byte{} {
		return ""
	}
	return hex.EncodeToString(t.ID[:])
}

// WithTrace returns a context with which calls, and requests of a web.Transport, continue t.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return traceparent.With(ctx, t.span(), t.State)
}

// TraceOf returns the trace that ctx carries: that of WithTrace, or in a handler that of
// the request, or of the span that a tracer has made for the handler. It is zero if there is
// none.
func TraceOf(ctx context.Context) Trace { return traceOf(traceparent.Of(ctx)) }

// startSpan starts the span of a call, and sets the trace of its request. It returns a context
// with the span, and the function that ends the span. Without a tracer the trace goes on as it is:
// an ID of a span that is never exported would break it.
func (c *Caller) startSpan(ctx context.Context, e *Envelope) (context.Context, func(error)) {
	tracer := spindle.TracerOf(ctx)
	if tracer == nil {
		tracer = c.tracer
	}
	if tracer == nil {
		if e.Trace == (Trace{}) {
			e.Trace = TraceOf(ctx)
		}
		return ctx, noSpan
	}
	if e.Trace != (Trace{}) {
		ctx = WithTrace(ctx, e.Trace)
	}
	ctx, end := tracer.Start(ctx, spindle.SpanInfo{Kind: spindle.SpanCall, Subject: e.Subject})
	e.Trace = TraceOf(ctx)
	return ctx, func(err error) { end(spindle.SpanEnd{Err: err}) }
}

func noSpan(error) {}
