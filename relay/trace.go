package relay

import (
	"context"
	"encoding/hex"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/tracing"
)

// traceID returns the identity of a trace in hexadecimal; "" for none.
func traceID(t *tracing.Context) string {
	if t.ID == [16]byte{} {
		return ""
	}
	return hex.EncodeToString(t.ID[:])
}

// startSpan starts the span of a call, and sets the trace of its request. It returns a context
// with the span, and the function that ends the span. Without a tracer the trace goes on as it is:
// an ID of a span that is never exported would break it.
func (c *Caller) startSpan(ctx context.Context, e *Envelope) (context.Context, func(error)) {
	tracer := spindle.TracerOf(ctx)
	if tracer == nil {
		tracer = c.tracer
	}
	if tracer == nil {
		if e.Trace == (tracing.Context{}) {
			e.Trace = tracing.Of(ctx)
		}
		return ctx, noSpan
	}
	if e.Trace != (tracing.Context{}) {
		ctx = tracing.With(ctx, e.Trace)
	}
	ctx, end := tracer.Start(ctx, tracing.Span{Kind: "call", Subject: e.Subject})
	e.Trace = tracing.Of(ctx)
	return ctx, func(err error) { end(tracing.End{Err: err}) }
}

func noSpan(error) {}
