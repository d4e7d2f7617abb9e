// Package web is an HTTP server and client on the loop, for HTTP/1.1 and HTTP/2. It runs any http.Handler. An idle
// connection takes a few hundred bytes: no goroutine, no stack, no buffer.
//
//	s := &web.Server{Handler: mux}
//	err := s.ListenAndServe(ctx, "127.0.0.1:8080") // until ctx ends; then drains
//
// Transport makes requests in tasks; it is the RoundTripper of an http.Client.
//
// # Three ways to run a handler
//
//	                 runs                      may                        costs
//	any handler      on a worker goroutine     block, lock, compute       two hand-overs
//	Inline(h)        in a task on the loop     wait like a task           one small stack
//	Server.Lean      in the callback           do neither                 no allocation
//
// Handlers are usually written for goroutines, so they run on worker goroutines. Inline
// marks a handler that does not block. The context of its request is the task's scope:
// spindle.Sleep and all other waits work with it, and end when the client disconnects.
//
// If Server.Handler is an inline handler, or an *http.ServeMux that routes to one, the
// request goes directly to a task. Inline handlers behind other routers and middleware
// work too; such a request goes to a worker first.
//
// # Which goroutine
//
// The methods of Server say where they may be called. Those of Service may be called from
// anywhere. ResponseWriters and request bodies are used as with net/http: by the
// handler's goroutine or task, or by another one that the handler waits for. That may be a task of
// another loop, which goes on meanwhile. Once the request's loop has begun such a call, a cancellation of
// the task does not end it; the end of the request does.
//
// Where nothing else is documented, the server behaves like net/http's.
package web

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/tracing"
)

// Server is the configuration of an HTTP server. The zero value answers 404 to everything.
// Its fields must not be changed while it is in use, and it must not be copied.
type Server struct {
	// Handler answers the requests that Lean does not take. Nil answers 404.
	Handler http.Handler

	// Lean is called first for every request, in the connection's callback. It
	// answers and returns true, or returns false to pass the request to Handler. It
	// must not block, or keep its argument. Nil takes no requests.
	Lean func(*LeanCtx) bool

	// Refused is called for each request that is answered without Lean or Handler, because
	// it is malformed, too long or late. It runs in the connection's callback and must not
	// block.
	Refused func(Refusal)

	// NoDate leaves the field Date out of responses, unless the handler sets it. Responses to
	// malformed requests have none either.
	NoDate bool

	// TLS secures the connections. Its NextProtos are ignored: Protocols decides. Nil means
	// plain connections.
	TLS *tls.Config

	// Protocols are the versions of HTTP that the server speaks, as in net/http: HTTP2 is
	// HTTP/2 over TLS, and UnencryptedHTTP2 is HTTP/2 on plain connections, for clients that
	// know it (h2c with prior knowledge). Nil means HTTP/1.1 and HTTP/2 over TLS.
	Protocols *http.Protocols
	// HTTP2 limits HTTP/2 connections. MaxConcurrentStreams, MaxReadFrameSize,
	// MaxReceiveBufferPerConnection, MaxReceiveBufferPerStream and MaxDecoderHeaderTableSize
	// are used. Nil means 250 streams, frames of 16 KB, and 1 MB and 256 KB of bodies that
	// handlers have not read.
	HTTP2 *http.HTTP2Config
	// ExtendedConnect accepts WebSockets on streams of HTTP/2 (RFC 8441): browsers then open
	// them on the connection of the page. Such a request is a CONNECT with the path of the
	// URL and the key ":protocol" in its Header. ws.Accept takes it; ws.Upgrade cannot.
	ExtendedConnect bool

	// HeaderTimeout is how long a client may take for the whole header, from its
	// first byte or, for the first request, from the start of the connection.
	// A TLS handshake may take as long. Zero means 10 seconds, negative no limit.
	HeaderTimeout time.Duration
	// BodyTimeout is how long a client may take for the whole body of a request, not
	// counting the time that it waits for the handler to read. Zero means 5 minutes,
	// negative no limit.
	BodyTimeout time.Duration
	// IdleTimeout is how long a connection may wait for its next request. Zero
	// means 2 minutes, negative no limit.
	IdleTimeout time.Duration
	// WriteTimeout is how long a response may wait for a client that reads nothing of
	// it. Zero means 30 seconds, negative no limit.
	WriteTimeout time.Duration
	// DrainTimeout is how long ListenAndServe waits for requests under way after its
	// context has ended. Zero means 10 seconds.
	DrainTimeout time.Duration
	// DrainIdle is how long a connection that waits for a request is kept while the
	// server drains, counted from the start of the drain or, if that is later, from its
	// last response. A client that sends a request in that time gets an answer, which
	// announces the close. Zero closes such connections at once, as net/http does: a
	// request that is on its way then fails. It should be shorter than DrainTimeout.
	DrainIdle time.Duration

	// MaxRequestLineBytes limits the first line of a request: method, target and
	// version. A longer one is answered with 414. Zero means 8 KB.
	MaxRequestLineBytes int
	// MaxHeaderBytes limits the header of a request. A longer one is answered with
	// 431. Zero means 64 KB.
	MaxHeaderBytes int
	// MaxHeaderFields limits the number of fields in the header of a request. More are
	// answered with 431. Zero means 128.
	MaxHeaderFields int
	// MaxBodyBytes limits the body of a request. A longer Content-Length is answered
	// with 413; reading a chunked body that is longer fails with an
	// *http.MaxBytesError. Zero means no limit.
	MaxBodyBytes int64
	// MaxConns limits the open connections on each loop. Others wait in the system's
	// queue. Zero means no limit.
	MaxConns int
	// MaxRequestsPerConn limits the requests of a connection, which is closed after
	// them. Zero means no limit.
	MaxRequestsPerConn int
	// MaxWorkers limits the handlers that run on goroutines at the same time. Further
	// requests wait. Zero means 10,000.
	MaxWorkers int

	// Pool is where inline handlers run their calls of spindle.Blocking, unless they
	// choose another one. Nil means the loop's own workers, which the program's other
	// tasks use too.
	Pool *spindle.Pool

	// Loops is how many loops ListenAndServe makes. Zero means one for each
	// processor that Go may use.
	Loops int

	// OnStart is called by ListenAndServe and Serve before they listen, and OnShutdown
	// after the last connection has ended, in the caller's task or goroutine. Both may
	// wait. If OnStart fails, its error is returned and nothing is served.
	OnStart    func(context.Context) error
	OnShutdown func(context.Context) error
	// OnListen is called with the address once ListenAndServe or Serve accepts
	// connections on it.
	OnListen func(net.Addr)

	// BaseContext returns the context that all requests of a listener derive from.
	// It is called once for each Serve, ListenAndServe, Listen or ListenGroup. The
	// listener is the one that Serve was called with; otherwise only its Addr can
	// be used. Nil means context.Background().
	BaseContext func(net.Listener) context.Context
	// ConnContext returns the context that all requests of a connection derive from.
	// ctx is the base context. Only the addresses and Close of c can be used.
	// ConnContext is called on the connection's loop and must not block; several
	// loops may call it at the same time. Nil means the base context.
	ConnContext func(ctx context.Context, c net.Conn) context.Context
	// ConnState is called when a connection changes its state, with the states of
	// net/http. A TLS connection is new when its handshake is complete; requests
	// that are pipelined are one period of activity. ConnState is called like
	// ConnContext, with the same c for all states of a connection.
	ConnState func(c net.Conn, state http.ConnState)

	// DisableGeneralOptionsHandler passes "OPTIONS *" requests to Handler. They are
	// answered with 200 and an empty body otherwise.
	DisableGeneralOptionsHandler bool

	// AccessLog gets a record for each request, from a worker of the loop. Nil means no
	// access log.
	AccessLog *slog.Logger
	// Tracer makes a span for each request that Handler answers, and for the tasks, dials
	// and requests that an inline handler makes. Its Route is that of an http.ServeMux, unless
	// a handler in front of the mux passes a copy of the request on. Nil means no spans. Requests that Lean
	// answers have none.
	Tracer tracing.Tracer
	// ErrorLog gets panics and other mistakes of handlers, and errors of connections.
	// Nil means slog.Default().
	ErrorLog *slog.Logger

	noKeepAlives atomic.Bool

	mu       sync.Mutex
	services []*Service // that have not ended, the oldest first; guarded by mu
	closed   bool       // Shutdown or Close was called; guarded by mu
}

// Causes of the end of a request's context. The others are context.Canceled when its handler
// has returned, http.ErrServerClosed if the server ends before that, and a net.Error that
// errors.Is matches with os.ErrDeadlineExceeded if the client took longer than a time-out
// allows.
var (
	// ErrClientGone is the cause if the client has closed or reset the connection.
	ErrClientGone = errors.New("web: the client has closed the connection")
	// errTimeout is the cause if the client took longer than a time-out allows.
	errTimeout error = timeoutError("web: the client took too long")
)

// timeoutError is a net.Error that errors.Is matches with os.ErrDeadlineExceeded.
type timeoutError string

func (e timeoutError) Error() string { return string(e) }

func (timeoutError) Unwrap() error { return os.ErrDeadlineExceeded }

func (timeoutError) Timeout() bool { return true }

func (timeoutError) Temporary() bool { return true }

// limited returns the duration of a time-out that is configured as d; 0 means none.
func limited(d, zero time.Duration) time.Duration {
	switch {
	case d == 0:
		return zero
	case d < 0:
		return 0
	}
	return d
}

func (s *Server) limits() http1.Limits {
	return http1.Limits{
		RequestLine: s.MaxRequestLineBytes, HeaderBytes: s.MaxHeaderBytes, FieldCount: s.MaxHeaderFields,
		BodyBytes: s.MaxBodyBytes,
	}
}

func (s *Server) errorLog() *slog.Logger {
	if s.ErrorLog != nil {
		return s.ErrorLog
	}
	return slog.Default()
}

// tls returns the TLS configuration with the server's protocols, nil without TLS.
func (s *Server) tls() *tls.Config {
	if s.TLS == nil {
		return nil
	}
	config := s.TLS.Clone()
	config.NextProtos = nextProtos(s.protocols())
	return config
}

// standard returns an *http.Server that describes s, for code that looks for one in a
// request's context. ReverseProxy aborts a response only if it finds one.
func (s *Server) standard(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		TLSConfig:         s.TLS,
		Protocols:         s.Protocols,
		HTTP2:             s.HTTP2,
		ReadHeaderTimeout: limited(s.HeaderTimeout, 10*time.Second),
		IdleTimeout:       limited(s.IdleTimeout, 2*time.Minute),
		MaxHeaderBytes:    s.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.errorLog().Handler(), slog.LevelError),
	}
}

// handler returns Handler or its default.
func (s *Server) handler() http.Handler {
	if s.Handler != nil {
		return s.Handler
	}
	return http.NotFoundHandler()
}
