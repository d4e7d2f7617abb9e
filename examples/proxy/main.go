// Command proxy forwards connections to another server. It reads from one side only as
// fast as the other side reads. When one side closes its sending direction, the proxy
// closes that direction to the other side, which can still answer.
//
//	go run ./examples/proxy -to example.com:80
//	curl -H 'Host: example.com' http://127.0.0.1:9000
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:9000", "`ADDRESS` to listen on")
	to := flag.String("to", "127.0.0.1:80", "`ADDRESS` to forward connections to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, *to, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, addr, to string, out io.Writer) error {
	return spindle.Run(ctx, func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "listening on", ln.Addr())
		serving := stream.ServeConfig{OnError: func(c *stream.Conn, err error) error {
			fmt.Fprintf(out, "%v: %v\n", c.RemoteAddr(), err)
			return nil
		}}
		return serving.Serve(ctx, ln, func(ctx context.Context, client *stream.Conn) error {
			return forward(ctx, client, to)
		})
	})
}

// forward connects a client to the server, with a task for each direction. If one task
// fails, the other is cancelled, and both connections are closed.
func forward(ctx context.Context, client *stream.Conn, to string) error {
	server, err := stream.Dial(ctx, "tcp", to)
	if err != nil {
		return err
	}
	defer server.Close()
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(context.Context) error { return copyAll(server, client) })
		return copyAll(client, server)
	})
}

// copyAll copies one direction until EOF, and then closes it.
func copyAll(to, from *stream.Conn) error {
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	return to.CloseWrite()
}
