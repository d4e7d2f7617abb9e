package main

import (
	"context"
	"io"
	"net"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// coroutineEcho serves connections with a task for each.
func coroutineEcho(ctx context.Context, l *loop.Loop, at endpoint, ready func(net.Addr)) error {
	return spindle.Options{On: l}.Run(ctx, func(ctx context.Context) error {
		ln, err := stream.ListenConfig{ReusePort: at.shared}.Listen(ctx, at.network, at.address)
		if err != nil {
			return err
		}
		ready(ln.Addr())
		return stream.Serve(ctx, ln, echo)
	})
}

// echo serves one client.
func echo(_ context.Context, c *stream.Conn) error {
	for {
		data, err := c.ReadBorrow()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := c.Write(data); err != nil {
			return err
		}
	}
}
