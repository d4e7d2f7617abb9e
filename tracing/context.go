package tracing

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/spindleloop/spindle/internal/traceparent"
)

// Context is a W3C trace context: the identity of a trace, of the sender's span in it, the
// trace flags, and the value of the header tracestate. The zero Context is none.
type Context struct {
	ID    [16]byte
	Span  [8]byte
	Flags byte
	State string
}

var errMalformed = errors.New("tracing: malformed traceparent")

// Parse parses the value of a traceparent header.
func Parse(s string) (t Context, err error) {
	parts := strings.Split(s, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 ||
		len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 || strings.ToLower(s) != s {
		return Context{}, errMalformed
	}
	var version, flags [1]byte
	for i, to := range [][]byte{version[:], t.ID[:], t.Span[:], flags[:]} {
		if _, err := hex.Decode(to, []byte(parts[i])); err != nil {
			return Context{}, errMalformed
		}
	}
	if t.ID == [16]byte{} || t.Span == [8]byte{} {
		return Context{}, errMalformed
	}
	t.Flags = flags[0]
	return t, nil
}

// String returns the value of a traceparent header; "" for none.
func (t Context) String() string {
	if t.ID == [16]byte{} {
		return ""
	}
	return "00-" + hex.EncodeToString(t.ID[:]) + "-" + hex.EncodeToString(t.Span[:]) + "-" + hex.EncodeToString([]byte{t.Flags})
}

// With returns a context with which calls of package relay, and requests of a web.Transport that
// have no headers of their own for it, continue t.
func With(ctx context.Context, t Context) context.Context {
	return context.WithValue(ctx, traceparent.Key{}, &t)
}

// Of returns the trace that ctx carries: that of With, or in a handler that of the request, or of
// the span that a Tracer has made for the handler. It is zero if there is none.
func Of(ctx context.Context) Context {
	if t, _ := ctx.Value(traceparent.Key{}).(*Context); t != nil {
		return *t
	}
	return Context{}
}
