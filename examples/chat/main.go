// Command chat is a chat server: each client reads what the others write. Each client has
// a task that reads and a task that writes, with a queue of a few lines between them and
// the room. A client that does not read fills its own queue and is then disconnected.
//
//	go run ./examples/chat
//	nc 127.0.0.1 9000                 (in two terminals)
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
		fmt.Fprintln(os.Stderr, "chat:", err)
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
		var r room
		return stream.Serve(ctx, ln, r.serve)
	})
}
