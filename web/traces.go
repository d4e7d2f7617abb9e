package web

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/traceparent"
	"github.com/spindleloop/spindle/tracing"
)

// withTrace returns a context that carries the trace in the header of a request. Base may be
// nil, and is returned if there is no trace.
func withTrace(base context.Context, h http.Header) context.Context {
	parents := h[traceparent.Header]
	if len(parents) != 1 {
		return base
	}
	t, err := tracing.Parse(parents[0])
	if err != nil {
		return base // as if there were none, as W3C says
	}
	if base == nil {
		base = context.Background()
	}
	t.State = strings.Join(h[traceparent.StateHeader], ",")
	return tracing.With(base, t)
}

// errHandlerFailed is the error of a span around a handler that panicked or called Goexit.
var errHandlerFailed = errors.New("web: the handler panicked or called runtime.Goexit")

// startSpan starts the span of the handler. It returns the context for the handler, and a
// function to call when the handler has ended.
func (x *exchange) startSpan(ctx context.Context, tracer tracing.Tracer) (context.Context, func()) {
	if spindle.ScopeOf(ctx) == nil {
		ctx = spindle.WithTracer(ctx, tracer) // for what a handler on a goroutine does
	}
	ctx, end := tracer.Start(ctx, tracing.Span{Kind: "server", Method: x.method, Host: x.req.Host, Path: x.url.Path})
	return ctx, func() {
		if x.handler != handlerReturned {
			end(tracing.End{Route: x.req.Pattern, Err: errHandlerFailed})
			return
		}
		end(tracing.End{Route: x.req.Pattern, Status: x.w.answered()})
	}
}

// answered returns the status of the response of a handler that has returned.
func (w *response) answered() int {
	if w.enter() != nil {
		return 0
	}
	defer w.leave()
	switch {
	case w.phase == draftTaken:
		return http.StatusSwitchingProtocols
	case w.status == 0:
		return http.StatusOK
	}
	return w.status
}

// tracedTrip makes a request in a span.
func (c *Transport) tracedTrip(tracer tracing.Tracer, base context.Context, req *http.Request) (*http.Response, error) {
	method := req.Method
	if method == "" {
		method = "GET"
	}
	ctx, end := tracer.Start(req.Context(), tracing.Span{Kind: "client", Method: method, Host: req.URL.Host, Path: req.URL.Path})
	res, err := c.roundTrip(base, req.WithContext(ctx))
	if err != nil {
		end(tracing.End{Err: err})
		return nil, err
	}
	end(tracing.End{Status: res.StatusCode})
	res.Request = req
	return res, nil
}
