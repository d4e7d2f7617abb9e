// Command chat is a chat server: what one client writes, all others read. Each
// client has a task that reads and a task that writes, and between them a queue
// of a few lines. A client that does not read fills its own queue and nobody
// else's; then it has to leave.
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
	"github.com/spindleloop/spindle/examples/internal/tcp"
	"golang.org/x/sys/unix"
)

func main() {
	port := flag.Int("port", 9000, "`PORT` to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := spindle.Run(ctx, func(ctx context.Context) error { return serve(ctx, *port, os.Stdout) })
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, port int, out io.Writer) error {
	listener, addr, err := tcp.Listen(port)
	if err != nil {
		return err
	}
	defer unix.Close(listener)
	fmt.Fprintln(out, "listening on", addr)
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		var room room
		for id := 1; ; id++ {
			fd, err := tcp.Accept(ctx, listener)
			if err != nil {
				return err
			}
			n.Go(func(ctx context.Context) error { return room.welcome(ctx, fd, id) })
		}
	})
}
