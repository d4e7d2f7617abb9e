package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
)

// ServeConfig is how to serve, where Serve does not do.
type ServeConfig struct {
	// MaxConns is how many connections are served at once; the next ones wait
	// in the backlog. Zero means no limit.
	MaxConns int

	// Drain is how long the handlers may go on when the serving is cancelled,
	// before they are cancelled too. Zero means not at all.
	Drain time.Duration

	// OnError is told of a handler's error, on the loop. Nil is for handlers
	// whose errors are those of their connection: those end nothing else, and
	// are dropped; any other error ends the serving, as that of a task ends
	// its nursery.
	OnError func(c *Conn, err error)
}

// Serve accepts connections and runs handler for each in a task of its own, until
// ctx is cancelled, the listener is closed, or a handler fails. The connection is
// closed when its handler returns; the listener when Serve does. See ServeConfig
// for handlers that fail, and for an end that is less abrupt.
func Serve(ctx context.Context, ln *Listener, handler func(ctx context.Context, c *Conn) error) error {
	return ServeConfig{}.Serve(ctx, ln, handler)
}

// Serve is Serve as configured.
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
// listener closed; ctx is not that of the handlers, who may outlive it.
func (sc ServeConfig) accept(ctx context.Context, ln *Listener, n *spindle.Nursery, handler func(context.Context, *Conn) error) error {
	s := &serving{onError: sc.OnError, handler: handler}
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
		// What stands here stands on the stack of every idle connection.
		n.Go(func(ctx context.Context) error {
			defer s.end(c)
			return s.judge(c, s.handler(ctx, c))
		})
	}
}

// serving is what the handlers share.
type serving struct {
	handler func(context.Context, *Conn) error
	onError func(c *Conn, err error)
	places  *cosync.Semaphore // nil if there is no limit
}

func (s *serving) end(c *Conn) {
	c.Close()
	if s.places != nil {
		s.places.Release()
	}
}

// judge is what a handler's error means for the others.
func (s *serving) judge(c *Conn, err error) error {
	if err == nil {
		return nil
	}
	return s.judgeFailed(c, err)
}

func (s *serving) judgeFailed(c *Conn, err error) error {
	var canceled *spindle.Canceled
	switch {
	case errors.As(err, &canceled):
		return err
	case s.onError != nil:
		s.onError(c, err)
		return nil
	}
	var fault net.Error
	var limit *LimitError
	if errors.As(err, &fault) || errors.As(err, &limit) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
