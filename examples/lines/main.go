// Command lines is a calculator with a protocol of lines. It shows what a server has to
// limit: the length of a line, and the time that a client may take.
//
//	go run ./examples/lines
//	nc 127.0.0.1 9000
//	1 2 + 4 *
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

const (
	lineLimit   = 256              // bytes in a line, its end included
	turnTimeout = 30 * time.Second // for a whole line, and for the client to take the answer
)

func main() {
	addr := flag.String("addr", "127.0.0.1:9000", "`ADDRESS` to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "lines:", err)
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
		return stream.ServeConfig{MaxConns: 1000}.Serve(ctx, ln, converse)
	})
}

// converse answers one line after the other. Errors of the connection are returned: Serve
// does not log them.
func converse(ctx context.Context, c *stream.Conn) error {
	lines := stream.NewReader(c, lineLimit)
	for {
		// The time-out is for a whole turn. With a time-out for each read, a client
		// that sends a byte now and then could stay forever.
		err := spindle.FailAfter(ctx, turnTimeout, func(context.Context) error { return turn(lines, c) })
		var limit *stream.LimitError
		switch {
		case errors.As(err, &limit):
			return dismiss(ctx, c, fmt.Sprintf("a line has at most %d bytes", limit.Limit))
		case errors.Is(err, spindle.ErrTimeout):
			return dismiss(ctx, c, fmt.Sprintf("a line has to come within %v", turnTimeout))
		case err == io.EOF: // between two lines
			return nil
		case err != nil:
			return err
		}
	}
}

// turn answers one line.
func turn(lines *stream.Reader, c *stream.Conn) error {
	line, err := lines.ReadLine()
	if err != nil {
		return err
	}
	result, wrong := calculate(string(line))
	if wrong != nil {
		_, err = fmt.Fprintln(c, "error:", wrong)
	} else {
		_, err = fmt.Fprintln(c, result)
	}
	return err
}

// dismiss sends a client the reason for closing. It then reads and drops what the client
// has sent: closing with unread bytes resets a connection, and the client might not see
// the reason.
func dismiss(ctx context.Context, c *stream.Conn, why string) error {
	_, err := spindle.MoveOnAfter(ctx, turnTimeout, func(context.Context) error {
		_, err := fmt.Fprintln(c, "error:", why)
		c.CloseWrite()
		io.Copy(io.Discard, c)
		return err
	})
	return err
}
