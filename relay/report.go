package relay

import (
	"cmp"
	"fmt"
	"log/slog"

	"github.com/spindleloop/spindle/tracing"
)

// report logs a panic of a handler, because its stack stays here, and an error that no caller
// is told.
func (s *service) report(r *Request, err error, told bool) {
	log := cmp.Or(s.o.ErrorLog, slog.Default())
	if p, ok := err.(*handlerPanic); ok {
		// The stack is part of the message: slog would escape the lines of an attribute.
		log.Error(fmt.Sprintf("relay: handler panicked: %v\n\n%s", p.value, p.stack), traced(r.Trace, "subject", r.Subject)...)
	} else if !told {
		log.Error("relay: handler failed", traced(r.Trace, "subject", r.Subject, "attempt", r.Attempt, "err", err)...)
	}
}

// traced adds the ID of a trace to the attributes of a record, if there is one.
func traced(t tracing.Context, attributes ...any) []any {
	if id := traceID(&t); id != "" {
		attributes = append(attributes, "trace", id)
	}
	return attributes
}
