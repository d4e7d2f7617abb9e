package cancelpoints_test

import (
	"context"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
)

// calling prepares a Caller, and a Worker with the handler h.
func calling(h relay.Handler, call func(ctx context.Context, c *relay.Caller) error) prepareFunc {
	return func(ctx context.Context, n *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		bus := relay.NewLocal(relay.LocalOptions{})
		if _, err := spindle.Start(ctx, n, func(ctx context.Context, started func(bool)) error {
			return relay.NewWorker(bus).Serve(ctx, "test", h, relay.ServeOptions{InTasks: true, Ready: func() { started(true) }})
		}); err != nil {
			return nil, err
		}
		c, err := relay.NewCaller(ctx, bus, relay.CallerOptions{})
		if err != nil {
			return nil, err
		}
		after(func() { c.Close() })
		return func(ctx context.Context) error { return call(ctx, c) }, nil
	}
}

// silent is a handler that does not answer.
func silent(ctx context.Context, _ *relay.Request) ([]byte, error) { return nil, forever(ctx) }

// relayWaits are the waits of package relay.
var relayWaits = []wait{
	{name: "relay.Caller.Call", prepare: calling(silent, func(ctx context.Context, c *relay.Caller) error {
		_, err := c.Call(ctx, "test", []byte("x"))
		return err
	})},
	{name: "relay.Caller.Do", prepare: calling(silent, func(ctx context.Context, c *relay.Caller) error {
		_, err := c.Do(ctx, relay.Envelope{Subject: "test"})
		return err
	})},
	{name: "relay.Caller.Stream relay.Stream.Next", prepare: calling(silent, func(ctx context.Context, c *relay.Caller) error {
		s, err := c.Stream(ctx, relay.Envelope{Subject: "test", Body: []byte("x")})
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = s.Next(ctx)
		return err
	})},
	{name: "relay.Request.Send", prepare: func(ctx context.Context, n *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		request, over := spindle.NewFuture[*relay.Request](ctx), spindle.NewFuture[bool](ctx)
		open, err := calling(func(ctx context.Context, r *relay.Request) ([]byte, error) {
			request.Resolve(r)
			_, err := over.Await(ctx)
			return nil, err
		}, func(ctx context.Context, c *relay.Caller) error {
			s, err := c.Stream(ctx, relay.Envelope{Subject: "test", Body: []byte("x")})
			if err == nil {
				after(func() { s.Close() })
			}
			return err
		})(ctx, n, after)
		if err == nil {
			err = open(ctx)
		}
		if err != nil {
			return nil, err
		}
		r, err := request.Await(ctx)
		return func(ctx context.Context) error {
			for { // until the caller must read
				if err := r.Send(ctx, []byte("x")); err != nil {
					return err
				}
			}
		}, err
	}},
	{name: "relay.Worker.Serve", ends: true, prepare: ready(func(ctx context.Context) error {
		return relay.NewWorker(relay.NewLocal(relay.LocalOptions{})).Serve(ctx, "test", silent, relay.ServeOptions{InTasks: true})
	})},
	{name: "relay.Local.Publish", prepare: func(ctx context.Context, _ *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		bus := relay.NewLocal(relay.LocalOptions{Queue: 1})
		after(func() { bus.Close() })
		if _, err := bus.Subscribe(ctx, "test", "group"); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return bus.Publish(ctx, &relay.Envelope{Subject: "test"}) }, bus.Publish(ctx, &relay.Envelope{Subject: "test"})
	}},
	{name: "relay.NewCaller", ends: true, prepare: ready(opened(func(ctx context.Context) (*relay.Caller, error) {
		return relay.NewCaller(ctx, relay.NewLocal(relay.LocalOptions{}), relay.CallerOptions{})
	}))},
}
