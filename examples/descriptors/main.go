// Command descriptors is the echo server on bare file descriptors. It shows what a wait
// is: WaitReadable suspends the task until the kernel reports the descriptor, and the
// task then makes the system call itself. The example echo does the same with package
// stream.
//
//	go run ./examples/descriptors
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
	"golang.org/x/sys/unix"
)

func main() {
	port := flag.Int("port", 9000, "`PORT` to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *port, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "descriptors:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, port int, out io.Writer) error {
	return spindle.Run(ctx, func(ctx context.Context) error {
		listener, addr, err := listen(port)
		if err != nil {
			return err
		}
		defer unix.Close(listener)
		fmt.Fprintln(out, "listening on", addr)

		// The nursery owns the connections. When accept fails, their tasks are
		// cancelled, and they have ended before run returns.
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for {
				fd, err := accept(ctx, listener)
				if err != nil {
					return err
				}
				n.Go(func(ctx context.Context) error { return echo(ctx, fd) })
			}
		})
	})
}

// echo serves one client.
func echo(ctx context.Context, fd int) error {
	defer unix.Close(fd)
	buf := make([]byte, 64<<10)
	for {
		if err := spindle.WaitReadable(ctx, fd); err != nil {
			return err // cancelled: the server shuts down
		}
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EAGAIN: // a spurious wake-up, which the kernel may report
			continue
		case n <= 0:
			return nil // the client closed or reset the connection
		}
		// Nothing more is read before everything is written. A client that does not
		// read is soon unable to write, and uses one buffer.
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
