package stream

import (
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

// ServeConfig configures a server. The zero value is what Serve uses.
type ServeConfig struct {
	// MaxConns is how many connections are served at once; the next ones wait
	// in the backlog. Zero means no limit.
	MaxConns int

	// Drain is how long handlers may go on after the context of Serve is
	// cancelled, before they are cancelled too. Zero cancels them at once.
	Drain time.Duration

	// OnError decides what a handler's error, or panic, means for the server. If
	// it returns nil, the server goes on; otherwise Serve cancels the other
	// handlers and returns that error. A panic arrives as a
	// *spindle.PanicError; if OnError returns it, Serve panics with it, as a
	// nursery does. OnError runs on the loop and must not wait; c is still open.
	//
	// With a nil OnError the server goes on. Errors that a peer can cause (those
	// of the connection, the end of the stream, a *LimitError) are dropped; all
	// others, and panics, are logged to ErrorLog.
	OnError func(c *Conn, err error) error

	// ErrorLog is the logger for handlers that fail when OnError is nil. Nil
	// means slog.Default().
	ErrorLog *slog.Logger
}

// Serve accepts connections and runs handler for each in a task of its own, until
// ctx is cancelled or the listener is closed. The connection is closed when its
// handler returns; the listener when Serve does. A handler that fails or panics
// loses its connection; the error is logged and the server goes on, unless
// ServeConfig.OnError decides otherwise.
//
// When ctx is cancelled, the handlers are cancelled at once and Serve returns when
// they have ended; ServeConfig.Drain gives them time. When the listener is closed,
// the handlers go on and Serve waits for them.
func Serve(ctx context.Context, ln *Listener, handler func(ctx context.Context, c *Conn) error) error {
	return ServeConfig{}.Serve(ctx, ln, handler)
}

// Serve is the function Serve as configured by sc.
func (sc ServeConfig) Serve(ctx context.Context, ln *Listener, handler func(ctx context.Context, c *Conn) error) error {
	defer ln.Close()
	var ended error // of the accepting
	err := spindle.WithScope(ctx, func(inner context.Context, handlers *spindle.Scope) error {
		if sc.Drain > 0 {
			handlers.Shield(true)
		}
		return spindle.WithNursery(inner, func(_ context.Context, n *spindle.Nursery) error {
			ended = sc.accept(ctx, ln, n, handler)
			ln.Close()
			if sc.Drain > 0 {
				handlers.SetDeadline(spindle.Now(ctx) + sc.Drain)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	return ended
}

// accept starts a handler for each connection, until ctx is cancelled or the
// listener closed. Handlers run in n and may outlive ctx.
func (sc ServeConfig) accept(ctx context.Context, ln *Listener, n *spindle.Nursery, handler func(context.Context, *Conn) error) error {
	s := &serving{onError: sc.OnError, log: sc.ErrorLog, handler: handler}
	if sc.MaxConns > 0 {
		s.places = cosync.NewSemaphore(sc.MaxConns)
	}
	for {
		if s.places != nil {
			if err := s.places.Acquire(ctx); err != nil {
				return err
			}
		}
		c, err := ln.acceptIn(ctx)
		if err != nil {
			return err
		}
		// This frame is on the stack of every idle connection: keep it small.
		n.Go(func(ctx context.Context) (err error) {
			defer s.end(ctx, c, &err)
			return s.handler(ctx, c)
		})
	}
}

// serving is the state that the handlers of one server share.
type serving struct {
	handler func(context.Context, *Conn) error
	onError func(c *Conn, err error) error
	log     *slog.Logger      // nil for slog.Default
	places  *cosync.Semaphore // nil if there is no limit
}

// end is deferred around a handler. It sets err, the handler's error, to what the
// server should end with.
func (s *serving) end(ctx context.Context, c *Conn, err *error) {
	if v := recover(); v != nil {
		*err = panicked(v)
	}
	defer s.release(c)
	if *err != nil {
		*err = s.judge(ctx, c, *err)
	}
}

func panicked(v any) error {
	if p, ok := v.(*spindle.PanicError); ok { // of a nursery in the handler
		return p
	}
	return &spindle.PanicError{Value: v, Stack: debug.Stack()}
}

func (s *serving) release(c *Conn) {
	c.Close()
	if s.places != nil {
		s.places.Release()
	}
}

// judge returns the error that the server should end with because a handler has
// failed with err; nil to go on.
func (s *serving) judge(ctx context.Context, c *Conn, err error) error {
	var canceled *spindle.Canceled
	if errors.As(err, &canceled) && ctx.Err() != nil {
		return err // the scope that was cancelled takes it back
	}
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
	case !ofPeer(err):
		log.Error("stream: handler failed", "remote", c.RemoteAddr(), "err", err)
	}
	return nil
}

// ofPeer reports whether err is one that a peer can cause.
func ofPeer(err error) bool {
	var fault net.Error
	var limit *LimitError
	return errors.As(err, &fault) || errors.As(err, &limit) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}
