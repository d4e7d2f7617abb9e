package relay

import (
	"context"
	"fmt"

	"github.com/spindleloop/spindle/internal/traceparent"
)

// Trace is a W3C trace context: the identity of a trace, of the sender's span in it, and
// the trace flags. The zero Trace is none.
type Trace struct {
	ID    [16]byte
	Span  [8]byte
	Flags byte
}

// ParseTrace parses the value of a traceparent header.
func ParseTrace(s string) (Trace, error) {
	sp, err := traceparent.Parse(s)
	if err != nil {
		return Trace{}, fmt.Errorf("relay: %w", err)
	}
	return traceOf(sp), nil
}

func traceOf(sp traceparent.Span) Trace { return Trace{ID: sp.Trace, Span: sp.ID, Flags: sp.Flags} }

func (t Trace) span() traceparent.Span {
	return traceparent.Span{Trace: t.ID, ID: t.Span, Flags: t.Flags}
}

// String returns the trace as the value of a traceparent header; "" for none.
func (t Trace) String() string { return t.span().String() }

// WithTrace returns a context with which calls, and requests of a web.Transport, continue t.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return traceparent.With(ctx, t.span(), "")
}

// TraceOf returns the trace that ctx carries: that of WithTrace, or in a handler that of
// the request. It is zero if there is none.
func TraceOf(ctx context.Context) Trace {
	sp, _ := traceparent.Of(ctx)
	return traceOf(sp)
}
