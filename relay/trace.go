package relay

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
)

// Trace is a W3C trace context: the identity of a trace, of the sender's span in it, and
// the trace flags. The zero Trace is none.
type Trace struct {
	ID    [16]byte
	Span  [8]byte
	Flags byte
}

// traceparent is the name of the header that carries a Trace between systems.
const traceparent = "traceparent"

var errTraceparent = errors.New("relay: malformed traceparent")

// ParseTrace parses the value of a traceparent header.
func ParseTrace(s string) (t Trace, err error) {
	parts := strings.Split(s, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 ||
		len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 || strings.ToLower(s) != s {
		return Trace{}, errTraceparent
	}
	var version, flags [1]byte
	for i, to := range [][]byte{version[:], t.ID[:], t.Span[:], flags[:]} {
		if _, err := hex.Decode(to, []byte(parts[i])); err != nil {
			return Trace{}, errTraceparent
		}
	}
	if t.ID == [16]byte{} || t.Span == [8]byte{} {
		return Trace{}, errTraceparent
	}
	t.Flags = flags[0]
	return t, nil
}

// String returns the trace as the value of a traceparent header; "" for none.
func (t Trace) String() string {
	if t.ID == [16]byte{} {
		return ""
	}
	return "00-" + hex.EncodeToString(t.ID[:]) + "-" + hex.EncodeToString(t.Span[:]) + "-" + hex.EncodeToString([]byte{t.Flags})
}

type traceKey struct{}

// WithTrace returns a context with which calls continue t.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the trace that ctx carries: that of WithTrace, or in a handler that of
// the request. It is zero if there is none.
func TraceOf(ctx context.Context) Trace {
	t, _ := ctx.Value(traceKey{}).(Trace)
	return t
}
