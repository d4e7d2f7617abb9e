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
	var places *cosync.Semaphore
	if sc.MaxConns > 0 {
		places = cosync.NewSemaphore(sc.MaxConns)
	}
	for {
		if places != nil {
			if err := places.Acquire(ctx); err != nil {
				return err
			}
		}
		c, err := ln.acceptIn(ctx)
		if err != nil {
			return err
		}
		n.Go(func(ctx context.Context) error {
			defer func() {
				c.Close()
				if places != nil {
					places.Release()
				}
			}()
			return sc.judge(c, handler(ctx, c))
		})
	}
}

// judge is what a handler's error means for the others.
func (sc ServeConfig) judge(c *Conn, err error) error {
	var canceled *spindle.Canceled
	switch {
	case err == nil || errors.As(err, &canceled):
		return err
	case sc.OnError != nil:
		sc.OnError(c, err)
		return nil
	}
	var fault net.Error
	if errors.As(err, &fault) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
