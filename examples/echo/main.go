// Command echo sends back to each client what it receives: a task for each
// connection, written as if it were alone, all of them on one goroutine.
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
	"github.com/spindleloop/spindle/examples/internal/tcp"
	"golang.org/x/sys/unix"
)

func main() {
	port := flag.Int("port", 9000, "`PORT` to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *port, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, port int, out io.Writer) error {
	return spindle.Run(ctx, func(ctx context.Context) error {
		listener, addr, err := tcp.Listen(port)
		if err != nil {
			return err
		}
		defer unix.Close(listener)
		fmt.Fprintln(out, "listening on", addr)

		// The nursery owns the connections: when accepting ends, for whatever
		// reason, they are cancelled, and have ended before run returns.
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for {
				fd, err := tcp.Accept(ctx, listener)
				if err != nil {
					return err
				}
				n.Go(func(ctx context.Context) error { return echo(ctx, fd) })
			}
		})
	})
}

// echo is the whole server, to one client.
func echo(ctx context.Context, fd int) error {
	defer unix.Close(fd)
	buf := make([]byte, 64<<10)
	for {
		if err := spindle.WaitReadable(ctx, fd); err != nil {
			return err // cancelled: the server is ending
		}
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EAGAIN: // a false alarm, which the kernel is allowed
			continue
		case n <= 0:
			return nil // the client has ended, or broken; no failure of ours
		}
		// Until everything is written nothing more is read: a client that does
		// not read is soon unable to write, and costs us one buffer.
		for rest := buf[:n]; len(rest) > 0; {
			if err := spindle.WaitWritable(ctx, fd); err != nil {
				return err
			}
			n, err := unix.Write(fd, rest)
			switch {
			case err == unix.EAGAIN:
				continue
			case err != nil:
				return nil
			}
			rest = rest[n:]
		}
	}
}
