// Command echo sends back to each client what it receives. Each connection has a task,
// and all tasks run on one goroutine.
//
//	go run ./examples/echo
//	nc 127.0.0.1 9000
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
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, addr string, out io.Writer) error {
	return spindle.Run(ctx, func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "listening on", ln.Addr())
		return stream.Serve(ctx, ln, echo)
	})
}

// echo serves one client. Serve closes the connection when echo returns.
func echo(ctx context.Context, c *stream.Conn) error {
	// While a client does not read, Copy waits in Write and reads no more from it.
	_, err := io.Copy(c, c)
	return err
}
