// Package gateway is the HTTP side of a web plane: a handler that turns requests into calls of
// package relay, and replies into responses, server-sent events or WebSocket messages.
//
//	mux.Handle("/resize", web.Inline(gateway.New(caller, gateway.Route{Subject: "resize"})))
//	mux.Handle("/ready", gateway.Ready(bus))
package gateway

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/traceparent"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/tracing"
	"github.com/spindleloop/spindle/web"
)

// Route says how a Handler turns requests into calls.
type Route struct {
	// Subject is the subject of the calls.
	Subject string

	// Timeout is the deadline of a call. Zero means that of the Caller.
	Timeout time.Duration

	// MaxBody is the largest body of a request in bytes; a larger one is answered with
	// 413. It also limits messages of a WebSocket. Zero means a megabyte.
	MaxBody int64

	// MaxCalls is how many calls may run at a time on one WebSocket with the subprotocol
	// "relay.calls.v1". Zero means 16.
	MaxCalls int

	// CheckOrigin decides whether a page with the request's Origin may open a WebSocket. Nil
	// means pages of the same host only; see ws.Options.
	CheckOrigin func(r *http.Request) bool

	// Headers are names of further header fields of a request that the worker gets, such as
	// "Authorization". Values of a field are joined by ", ".
	Headers []string

	// ReplyHeaders are names of header fields of a reply that the client gets besides
	// Content-Type, such as "Location". See relay.Request.SetHeader.
	ReplyHeaders []string

	// RetryAfter is what a client is told to wait when the plane is full or down. It is
	// rounded up to seconds. Zero means one second.
	RetryAfter time.Duration

	// ErrorLog gets the errors of calls that are answered with 500 or 502, or end a stream
	// or WebSocket. Clients do not see them. It also gets a warning when no worker serves
	// the subject or the bus is down, once until a call succeeds, and when the plane is
	// full, at most once in a minute. Nil means slog.Default().
	ErrorLog *slog.Logger
}

// Stats count the requests that a Handler has answered. Each is in one field. On a
// WebSocket, each message is counted, because each is a call.
type Stats struct {
	OK         uint64 // a response, whatever status its worker has chosen, or a whole stream
	TimedOut   uint64 // 504: no reply before the deadline
	ClientGone uint64 // the client left first, or cancelled its call (499 in some logs)
	Full       uint64 // 503: too many calls, or no worker, or no bus
	Failed     uint64 // 500 or 502: the handler failed, or the call did otherwise
	Refused    uint64 // 4xx: the request itself
}

// Handler is an http.Handler that calls workers. New makes one.
type Handler struct {
	c *relay.Caller
	r Route

	ok, timedOut, clientGone, full, failed, refused atomic.Uint64

	unserved atomic.Bool  // no worker serves the subject, and that was logged
	down     atomic.Bool  // the bus is down, and that was logged
	nextFull atomic.Int64 // when a full plane is logged again, in Unix nanoseconds
}

// New returns a handler that turns each request into a call of route.Subject:
//
//   - A plain request is answered with the reply. Its content type is the reply's header
//     Content-Type, and its status is the header Http-Status, "404" for example; see
//     relay.Request.SetHeader. Without them they are application/octet-stream and 200.
//   - With "Accept: text/event-stream", each item of a stream is a server-sent event. An
//     error after the first item is an event of the type "error". One before it is answered
//     as for a plain request.
//   - On a WebSocket, each message of the client is a call, one at a time. Its items are
//     messages to the client, without a mark after the last one. An error closes the
//     connection: with 1013 if the plane is full or down, and otherwise with 1011.
//   - On a WebSocket with the subprotocol "relay.calls.v1", calls run at the same time. Each
//     message has the ID of its call, and an error ends only its call. The guide has the protocol
//     and a client: docs/guide/relay-calls.md.
//
// The envelope has the body, the headers Http-Method, Http-Path, Http-Query, Content-Type and
// Idempotency-Key. The path is as the client has sent it, with escapes such as %20. It also has
// the trace of the request's context, or of its traceparent. Messages of a WebSocket have no
// Idempotency-Key. With relay.ServeOptions.Results, a client that sends the Idempotency-Key of
// another client gets that one's reply. Where this must not happen, let a handler in front put
// the client's identity before the key.
//
// If there is no reply before the deadline, the answer is 504. If the client leaves, the
// call is cancelled; on a WebSocket not while two more messages of the client wait, because it
// is not read then. A client of a WebSocket that does not answer a ping, or does not take a message,
// within 30 seconds has left. If the plane is full, or has no worker, or the bus is down, the answer is
// 503 with Retry-After; for a queue that is full, set relay.CallerOptions.FailWhenFull. If a handler
// fails or panics, the answer is 500. If the call fails in another way, because its worker was
// stopped or the reply is too large, the answer is 502. Both are logged to route.ErrorLog.
// While another request with the same Idempotency-Key runs, the answer is 409. If the bus
// cannot carry a header, such as a Content-Type with a control character on NATS, the answer is
// 400.
//
// The handler may run on goroutines, and in tasks with web.Inline.
func New(c *relay.Caller, route Route) *Handler {
	if c == nil {
		panic("relay/gateway: New: nil relay.Caller")
	}
	if err := relay.CheckSubject(route.Subject); err != nil {
		panic("relay/gateway: New: " + err.Error())
	}
	if route.MaxBody == 0 {
		route.MaxBody = 1 << 20
	}
	if route.MaxCalls <= 0 {
		route.MaxCalls = 16
	}
	if route.RetryAfter == 0 {
		route.RetryAfter = time.Second
	}
	return &Handler{c: c, r: route}
}

// Stats returns the counts of the handler.
func (h *Handler) Stats() Stats {
	return Stats{
		OK: h.ok.Load(), TimedOut: h.timedOut.Load(), ClientGone: h.clientGone.Load(),
		Full: h.full.Load(), Failed: h.failed.Load(), Refused: h.refused.Load(),
	}
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = withTrace(r)
	onStream := r.ProtoMajor == 2 && r.Method == http.MethodConnect && len(r.Header[":protocol"]) > 0 // RFC 8441
	if onStream || strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		if offersCalls(r) {
			h.serveCalls(w, r)
		} else {
			h.serveSocket(w, r)
		}
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.r.MaxBody))
	if err != nil {
		h.unread(w, r, err)
		return
	}
	e := h.envelope(r, body)
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		h.serveEvents(w, r, e)
		return
	}
	reply, err := h.c.Do(r.Context(), e)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	h.answer(w, r, reply)
}

// answer answers a request with a reply.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, reply *relay.Envelope) {
	status := http.StatusOK
	if text := reply.Headers["Http-Status"]; text != "" {
		var err error
		if status, err = strconv.Atoi(text); err != nil || status < 200 || status > 599 {
			h.fail(w, r, fmt.Errorf("relay: %s: the reply has the header Http-Status %q, which is not a status", h.r.Subject, text))
			return
		}
	}
	for _, name := range h.r.ReplyHeaders {
		if v := reply.Headers[name]; v != "" {
			w.Header().Set(name, v)
		}
	}
	w.Header().Set("Content-Type", cmp.Or(reply.Headers["Content-Type"], "application/octet-stream"))
	h.succeed()
	if status == http.StatusNoContent || status == http.StatusNotModified {
		w.Header().Del("Content-Type")
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(reply.Body)))
	w.WriteHeader(status)
	w.Write(reply.Body) // a client that has left needs no answer
}

// envelope returns the request as an envelope.
func (h *Handler) envelope(r *http.Request, body []byte) relay.Envelope {
	headers := map[string]string{"Http-Method": r.Method, "Http-Path": r.URL.EscapedPath()}
	if r.URL.RawQuery != "" {
		headers["Http-Query"] = r.URL.RawQuery
	}
	for _, name := range []string{"Content-Type", relay.IdempotencyKey} {
		if v := r.Header.Get(name); v != "" {
			headers[name] = v
		}
	}
	for _, name := range h.r.Headers {
		if v := r.Header.Values(name); len(v) > 0 {
			headers[name] = strings.Join(v, ", ")
		}
	}
	return relay.Envelope{Subject: h.r.Subject, Deadline: h.r.Timeout, Headers: headers, Body: body}
}

// withTrace returns a request with a context that carries a trace: that of the server's span, or
// what the client has sent if the server has none, as that of net/http.
func withTrace(r *http.Request) *http.Request {
	if tracing.Of(r.Context()) != (tracing.Context{}) {
		return r
	}
	t, err := tracing.Parse(r.Header.Get(traceparent.Header))
	if err != nil {
		return r
	}
	t.State = strings.Join(r.Header[traceparent.StateHeader], ",")
	return r.WithContext(tracing.With(r.Context(), t))
}

// unread answers a request with a body that cannot be read.
func (h *Handler) unread(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadRequest
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded): // of the server, which may end the context with it
		status = http.StatusRequestTimeout
	case r.Context().Err() != nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, web.ErrClientGone):
		h.clientGone.Add(1) // the body may fail before the context ends
		return
	}
	h.refused.Add(1)
	http.Error(w, http.StatusText(status), status)
}

// fail answers a request when its call has failed.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := h.count(r.Context(), err)
	h.report(r.Context(), status, err, "status", status)
	switch status {
	case 0:
		return
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", strconv.Itoa(retrySeconds(h.r.RetryAfter)))
	}
	http.Error(w, http.StatusText(status), status) // the error's text is not for clients
}

func retrySeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// count counts the end of a call that has failed, and returns the status. It returns 0 if
// the client has left.
func (h *Handler) count(ctx context.Context, err error) int {
	var remote *relay.RemoteError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		h.timedOut.Add(1)
		return http.StatusGatewayTimeout
	case ctx.Err() != nil:
		h.clientGone.Add(1)
		return 0
	case errors.Is(err, relay.ErrFull), errors.Is(err, relay.ErrNoResponder), errors.Is(err, relay.ErrDown), errors.Is(err, relay.ErrClosed):
		h.full.Add(1)
		return http.StatusServiceUnavailable
	case errors.Is(err, relay.ErrTooLarge):
		h.refused.Add(1)
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, relay.ErrHeader):
		h.refused.Add(1)
		return http.StatusBadRequest
	}
	status := http.StatusBadGateway
	if errors.As(err, &remote) {
		switch remote.Code {
		case "duplicate":
			h.refused.Add(1)
			return http.StatusConflict
		case "error", "panic":
			status = http.StatusInternalServerError
		}
	}
	h.failed.Add(1)
	return status
}

// succeed counts a call that has succeeded.
func (h *Handler) succeed() {
	h.ok.Add(1)
	for _, logged := range []*atomic.Bool{&h.unserved, &h.down} {
		if logged.Load() {
			logged.Store(false)
		}
	}
}

// report logs what clients are not told of an error, with what was sent to this one.
func (h *Handler) report(ctx context.Context, status int, err error, sent ...any) {
	trace := tracing.Of(ctx)
	log := cmp.Or(h.r.ErrorLog, slog.Default())
	switch {
	case status == http.StatusInternalServerError, status == http.StatusBadGateway:
		log.Error("relay: a call of an HTTP request failed", traced(trace, append(sent, "err", err)...)...)
	case status != http.StatusServiceUnavailable:
	case errors.Is(err, relay.ErrNoResponder):
		if !h.unserved.Swap(true) {
			log.Warn("relay: no worker serves the subject of a route", traced(trace, "subject", h.r.Subject)...)
		}
	case errors.Is(err, relay.ErrDown):
		if !h.down.Swap(true) {
			log.Warn("relay: the bus of a route is not connected", traced(trace, "subject", h.r.Subject, "err", err)...)
		}
	case errors.Is(err, relay.ErrFull):
		if h.fullIsDue(ctx) {
			log.Warn("relay: calls of a route are refused because the plane is full", traced(trace, "subject", h.r.Subject, "err", err)...)
		}
	}
}

// traced adds the ID of a trace to the attributes of a record, if there is one.
func traced(t tracing.Context, attributes ...any) []any {
	if t.ID != [16]byte{} {
		attributes = append(attributes, "trace", hex.EncodeToString(t.ID[:]))
	}
	return attributes
}

// fullEvery is the least time between two warnings of a full plane. Some calls succeed while
// others are refused, so a success does not end it.
const fullEvery = time.Minute

// fullIsDue reports whether a full plane is to be logged.
func (h *Handler) fullIsDue(ctx context.Context) bool {
	at, next := now(ctx), h.nextFull.Load()
	return at.UnixNano() >= next && h.nextFull.CompareAndSwap(next, at.Add(fullEvery).UnixNano())
}

// Ready returns a handler for readiness checks: 200 if the bus can be used, and otherwise 503
// with the reason.
func Ready(bus relay.Bus) http.Handler {
	if bus == nil {
		panic("relay/gateway: Ready: nil bus")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := bus.Ready(); err != nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ready\n")
	})
}
