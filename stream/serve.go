package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
)

// ServeConfig configures a server. Serve uses the zero ServeConfig.
type ServeConfig struct {
	// MaxConns is the number of connections served at once; further ones wait in the
	// backlog. Zero means no limit.
	MaxConns int

	// Drain is how long handlers may continue after Serve's context is cancelled.
	// Then they are cancelled, too. Zero cancels them at once. Connections that were
	// queued when the context was cancelled are served, too.
	Drain time.Duration

	// OnError decides what a handler's error or panic means for the server. If it
	// returns nil, the server continues; otherwise Serve cancels the other handlers
	// and returns that error. A panic arrives as a *spindle.PanicError; if OnError
	// returns it, Serve panics with it, as a nursery does. OnError runs on the loop
	// and must not wait; c is still open.
	//
	// If OnError is nil, the server continues. Errors that a peer can cause
	// (connection errors, the end of the stream, messages that are too long) are dropped; all
	// others, and panics, are logged to ErrorLog.
	OnError func(c *Conn, err error) error

	// ErrorLog logs failed handlers when OnError is nil. Nil means slog.Default().
	ErrorLog *slog.Logger
}

// Serve accepts connections and runs handler for each in a task of its own, until
// ctx is cancelled or the listener is closed. It closes each connection when its
// handler returns, and the listener when Serve returns. If a handler fails or
// panics, its connection is closed, the error is logged and the server continues,
// unless ServeConfig.OnError decides otherwise.
//
// When ctx is cancelled, Serve cancels the handlers and returns when they have
// ended; ServeConfig.Drain gives them time. When the listener is closed, Serve waits
// for the handlers to return.
func Serve(ctx context.Context, ln *Listener, handler func(ctx context.Context, c *Conn) error) error {
	return ServeConfig{}.Serve(ctx, ln, handler)
}

// Serve serves as the function Serve does, configured by sc.
func (sc ServeConfig) Serve(ctx context.Context, ln *Listener, handler func(ctx context.Context, c *Conn) error) error {
	defer ln.Close()
	var acceptErr error // why accepting ended
	err := spindle.WithScope(ctx, func(inner context.Context, handlers *spindle.Scope) error {
		if sc.Drain > 0 {
			handlers.SetShield(true)
			stop := spindle.LoopOf(ctx).Internal().AfterFunc(ctx, func() {
				handlers.SetDeadline(spindle.Now(handlers).Add(sc.Drain))
			})
			defer stop()
		}
		return spindle.WithNursery(inner, func(inner context.Context, n *spindle.Nursery) error {
			s := sc.newServer(ln, n, handler)
			acceptErr = s.accept(ctx)
			if sc.Drain > 0 && ctx.Err() != nil {
				s.drain(inner)
			}
			ln.Close()
			return nil
		})
	})
	if err != nil {
		return err
	}
	return acceptErr
}

func (sc ServeConfig) newServer(ln *Listener, n *spindle.Nursery, handler func(context.Context, *Conn) error) *server {
	s := &server{ln: ln, n: n, onError: sc.OnError, log: sc.ErrorLog, handler: handler}
	if sc.MaxConns > 0 {
		s.slots = cosync.NewSemaphore(sc.MaxConns)
	}
	return s
}

// accept starts a handler for each connection, until ctx is cancelled or the
// listener closed. Handlers may outlive ctx.
func (s *server) accept(ctx context.Context) error {
	for {
		if err := s.acquire(ctx); err != nil {
			return err
		}
		c, err := s.ln.accept(ctx)
		if err != nil {
			s.free()
			return err
		}
		s.start(c)
	}
}

// drain closes the listener, and starts handlers for the connections that were queued until
// then: their peers are connected, and closing the listener would reset them. If MaxConns
// are served, they wait until ctx ends.
func (s *server) drain(ctx context.Context) {
	queued := s.ln.drain()
	for i, fd := range queued {
		if s.acquire(ctx) != nil {
			s.ln.closeAll(queued[i:])
			return
		}
		c, err := s.ln.newConn(fd)
		if err != nil {
			s.free()
			continue
		}
		s.start(c)
	}
}

// start starts the handler of a connection.
func (s *server) start(c *Conn) {
	// This frame is on the stack of every idle connection: keep it small.
	s.n.Go(func(ctx context.Context) (err error) {
		defer s.end(ctx, c, &err)
		return s.handler(ctx, c)
	})
}

// server is the state that the handlers of one Serve call share.
type server struct {
	ln      *Listener
	n       *spindle.Nursery // of the handlers
	handler func(context.Context, *Conn) error
	onError func(c *Conn, err error) error
	log     *slog.Logger      // nil for slog.Default
	slots   *cosync.Semaphore // nil if there is no limit
}

// end is deferred around a handler. It replaces the handler's error with the error
// that Serve returns, or nil. It panics if Serve is to panic.
func (s *server) end(ctx context.Context, c *Conn, err *error) {
	var p *spindle.PanicError
	if v := recover(); v != nil {
		p = panicError(v)
		*err = p
	}
	defer s.release(c)
	if *err == nil {
		return
	}
	*err = s.handlerError(ctx, c, *err)
	if p != nil && *err == error(p) {
		panic(p)
	}
}

func panicError(v any) *spindle.PanicError {
	if p, ok := v.(*spindle.PanicError); ok { // from a nursery in the handler
		return p
	}
	return &spindle.PanicError{Value: v, Stack: debug.Stack()}
}

func (s *server) release(c *Conn) {
	c.Close()
	s.free()
}

// acquire waits until fewer than MaxConns connections are served.
func (s *server) acquire(ctx context.Context) error {
	if s.slots == nil {
		return nil
	}
	return s.slots.Acquire(ctx)
}

// free is the opposite of acquire.
func (s *server) free() {
	if s.slots != nil {
		s.slots.Release()
	}
}

// handlerError returns the error with which Serve ends because a handler has returned err, or nil
// to continue. The scope that was cancelled absorbs its cancellation. A failure beside it, such as the
// end of the connection at that moment, is one like any other.
func (s *server) handlerError(ctx context.Context, c *Conn, err error) error {
	if ctx.Err() == nil {
		return s.failed(c, err)
	}
	canceled, failure := separate(err)
	switch {
	case failure == nil:
		return canceled
	case canceled == nil:
		return s.failed(c, failure)
	}
	return errors.Join(canceled, s.failed(c, failure))
}

// separate returns the cancellations and the failures that a nursery has joined, or err as one of
// them.
func separate(err error) (canceled, failure error) {
	var one *spindle.Canceled
	joined, ok := err.(*spindle.Errors)
	switch {
	case !ok && errors.As(err, &one):
		return err, nil
	case !ok:
		return nil, err
	}
	for _, err := range joined.Errs {
		c, f := separate(err)
		canceled, failure = errors.Join(canceled, c), errors.Join(failure, f)
	}
	return canceled, failure
}

// failed returns the error with which Serve ends because a handler failed with err, or nil to
// continue.
func (s *server) failed(c *Conn, err error) error {
	if s.onError != nil {
		return s.onError(c, err)
	}
	log := s.log
	if log == nil {
		log = slog.Default()
	}
	var p *spindle.PanicError
	switch {
	case errors.As(err, &p):
		// The stack is in the message: in an attribute, slog would escape its lines.
		log.Error(fmt.Sprintf("stream: handler panicked: %v\n\n%s", p.Value, p.Stack), "remote", c.RemoteAddr())
	case !causedByPeer(err):
		log.Error("stream: handler failed", "remote", c.RemoteAddr(), "err", err)
	}
	return nil
}

// causedByPeer reports whether a peer can cause err.
func causedByPeer(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) || errors.Is(err, bufio.ErrTooLong) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}
