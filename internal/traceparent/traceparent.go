// Package traceparent has the trace context of W3C: the headers traceparent and tracestate,
// and how contexts carry them.
package traceparent

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
)

// The names of the headers, as http.Header has them.
const (
	Header      = "Traceparent"
	StateHeader = "Tracestate"
)

// Span names a span of a trace. The zero Span is none.
type Span struct {
	Trace [16]byte
	ID    [8]byte
	Flags byte
}

// ErrMalformed means that a text is not the value of a traceparent header.
var ErrMalformed = errors.New("malformed traceparent")

// Parse parses the value of a traceparent header.
func Parse(s string) (sp Span, err error) {
	parts := strings.Split(s, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 ||
		len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 || strings.ToLower(s) != s {
		return Span{}, ErrMalformed
	}
	var version, flags [1]byte
	for i, to := range [][]byte{version[:], sp.Trace[:], sp.ID[:], flags[:]} {
		if _, err := hex.Decode(to, []byte(parts[i])); err != nil {
			return Span{}, ErrMalformed
		}
	}
	if sp.Trace == [16]byte{} || sp.ID == [8]byte{} {
		return Span{}, ErrMalformed
	}
	sp.Flags = flags[0]
	return sp, nil
}

// String returns the value of a traceparent header; "" for none.
func (sp Span) String() string {
	if sp.Trace == [16]byte{} {
		return ""
	}
	return "00-" + hex.EncodeToString(sp.Trace[:]) + "-" + hex.EncodeToString(sp.ID[:]) + "-" + hex.EncodeToString([]byte{sp.Flags})
}

// Key is the key of the Value that a context carries.
type Key struct{}

// Value is what a context carries.
type Value struct {
	Span
	State string // of the header tracestate
}

// With returns a context that carries a span and the value of a tracestate header.
func With(ctx context.Context, sp Span, state string) context.Context {
	return context.WithValue(ctx, Key{}, &Value{sp, state})
}

// Of returns the span that ctx carries, and the value of a tracestate header.
func Of(ctx context.Context) (sp Span, state string) {
	if v, _ := ctx.Value(Key{}).(*Value); v != nil {
		return v.Span, v.State
	}
	return Span{}, ""
}
