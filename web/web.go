// Package web is an HTTP/1.1 server, and a client, on the loop. It runs any http.Handler, and an
// idle connection costs it a few hundred bytes: no goroutine, no stack, no buffer.
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
//	Inline(h)        in a task on the loop     wait in spindle's ways     one small stack
//	Server.Lean      in the callback           neither                    no allocation
//
// A handler is written for goroutines, so that is where it runs unless it says
// otherwise: Inline marks one that does not block. An inline handler's request has
// the task's scope as its context, so that spindle.Sleep and all other waits
// work with it, and end when the client is gone.
//
// Inline handlers are recognised where Server.Handler is one, or an *http.ServeMux
// that routes to one: then the request goes straight to a task. Behind any other
// router or middleware they work as well; the request then goes to a worker first.
//
// # Which goroutine
//
// Server's methods say where they may be called. A Service's may be called from
// anywhere. ResponseWriters and request bodies are used as with net/http, from the
// handler's goroutine or task, or another one that it waits for.
//
// Where nothing else is said, the server does as net/http's does.
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

	"github.com/spindleloop/spindle/internal/http1"
)

// Server says how to serve. Its zero value answers 404. Its fields must not be changed
// while it is in use, and it must not be copied.
type Server struct {
	// Handler answers what Lean does not take. Nil answers 404.
	Handler http.Handler

	// Lean is asked first about every request, in the connection's callback. It
	// answers and returns true, or it returns false and Handler gets the
	// request. It must not block or keep what it is lent. Nil takes none.
	Lean func(*LeanCtx) bool

	// TLS has connections be secured. Whatever NextProtos it has, the only protocol
	// is HTTP/1.1. Nil means that they are not.
	TLS *tls.Config

	// HeaderTimeout is how long a client may take for the whole header, from its
	// first byte or, for the first request, from the beginning of the connection.
	// A TLS handshake may take as long. Zero means 10 seconds, negative no limit.
	HeaderTimeout time.Duration
	// BodyTimeout is how long a client may take for the whole body of a request,
	// not counting the time that the handler lets it wait. Zero means 5 minutes,
	// negative no limit.
	BodyTimeout time.Duration
	// IdleTimeout is how long a connection may wait for its next request. Zero
	// means 2 minutes, negative no limit.
	IdleTimeout time.Duration
	// WriteTimeout is how long a client may take nothing of a response that waits
	// for it. Zero means 30 seconds, negative no limit.
	WriteTimeout time.Duration
	// DrainTimeout is how long ListenAndServe lets requests under way take once
	// its context has ended. Zero means 10 seconds.
	DrainTimeout time.Duration

	// MaxRequestLineBytes limits the first line of a request: method, target and
	// version. A longer one is answered with 414. Zero means 8 KB.
	MaxRequestLineBytes int
	// MaxHeaderBytes is for the header of a request. Zero means 64 KB.
	MaxHeaderBytes int
	// MaxBodyBytes is for the body of a request: one that says it is longer is
	// answered with 413, and reading one that turns out longer fails with an
	// *http.MaxBytesError. Zero means no limit.
	MaxBodyBytes int64
	// MaxConns is how many connections are open at most, on each loop; others
	// wait until the system can place them. Zero means no limit.
	MaxConns int
	// MaxRequestsPerConn is after how many requests a connection is closed. Zero
	// means no limit.
	MaxRequestsPerConn int
	// MaxWorkers is how many handlers run on goroutines at once; further requests
	// wait. Zero means 10,000.
	MaxWorkers int

	// Loops is how many loops ListenAndServe makes. Zero means one for each
	// processor that Go may use.
	Loops int

	// OnStart is called by ListenAndServe before it listens, and OnShutdown after the
	// last connection has ended, in the same task or goroutine; both may wait.
	// Without OnStart's success nothing else is done. They are ASGI's lifespan.
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
	// ctx is the base context. Of c, the addresses can be used, and Close.
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

	// AccessLog gets one record for each request, by a worker. Nil does without.
	AccessLog *slog.Logger
	// ErrorLog hears of handlers that panic, and of other mistakes of theirs. Nil
	// means slog.Default().
	ErrorLog *slog.Logger

	noKeepAlives atomic.Bool

	mu       sync.Mutex
	services map[*Service]struct{} // those that have not ended; guarded by mu
	closed   bool                  // by Shutdown or Close; guarded by mu
}

// Why a request's context ends, besides context.Canceled when its handler has
// returned.
var (
	// ErrClientGone is the cause if the client has closed or reset the connection.
	ErrClientGone = errors.New("web: the client has gone")
	// ErrServerClosed is the cause if the server ends before the handler has, and
	// the error of a server that was closed. To errors.Is it is also
	// http.ErrServerClosed.
	ErrServerClosed error = &outcome{"web: server closed", http.ErrServerClosed}
	// ErrTimeout is the cause if the client took longer than a time-out allows. To
	// errors.Is it is also os.ErrDeadlineExceeded, and its Timeout method
	// returns true.
	ErrTimeout error = &outcome{"web: the client took too long", os.ErrDeadlineExceeded}
)

// outcome is an error that also counts as one of the standard library.
type outcome struct {
	text string
	as   error
}

func (e *outcome) Error() string { return e.text }

func (e *outcome) Unwrap() error { return e.as }

// Timeout reports whether the error is a time-out, as with net.Error.
func (e *outcome) Timeout() bool { return e.as == os.ErrDeadlineExceeded }

// Temporary is for net.Error.
func (e *outcome) Temporary() bool { return e.Timeout() }

// limited is the duration to use for a time-out; 0 means none.
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
	return http1.Limits{RequestLine: s.MaxRequestLineBytes, HeaderBytes: s.MaxHeaderBytes, BodyBytes: s.MaxBodyBytes}
}

func (s *Server) errorLog() *slog.Logger {
	if s.ErrorLog != nil {
		return s.ErrorLog
	}
	return slog.Default()
}

// tls is the configuration with the protocol that is spoken here.
func (s *Server) tls() *tls.Config {
	if s.TLS == nil {
		return nil
	}
	config := s.TLS.Clone()
	config.NextProtos = []string{"http/1.1"}
	return config
}

// standard describes s as an *http.Server, for code that looks for one in a request's
// context. ReverseProxy, for one, aborts a response only if there is one.
func (s *Server) standard(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		TLSConfig:         s.TLS,
		ReadHeaderTimeout: limited(s.HeaderTimeout, 10*time.Second),
		IdleTimeout:       limited(s.IdleTimeout, 2*time.Minute),
		MaxHeaderBytes:    s.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.errorLog().Handler(), slog.LevelError),
	}
}

// handler is what answers requests.
func (s *Server) handler() http.Handler {
	if s.Handler != nil {
		return s.Handler
	}
	return http.NotFoundHandler()
}
