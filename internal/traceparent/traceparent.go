// Package traceparent has the names that package tracing shares with packages that receive and
// send traces.
package traceparent

// The names of the headers of W3C's trace context, as http.Header has them.
const (
	Header      = "Traceparent"
	StateHeader = "Tracestate"
)

// Key is the key of the *tracing.Context that a context carries.
type Key struct{}
