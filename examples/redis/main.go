// Command redis is a key-value server that speaks the protocol of Redis, so redis-cli and
// Redis clients can use it. All clients share one map without a lock, because their tasks
// run on one loop. A key that expires has a timer.
//
//	go run ./examples/redis
//	redis-cli -p 6380 set greeting hello ex 60
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// sizeLimit is the maximum size of a key, a value, or a line of the protocol, in bytes.
const sizeLimit = 1 << 20

func main() {
	addr := flag.String("addr", "127.0.0.1:6380", "`ADDRESS` to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "redis:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, addr string, out io.Writer) error {
	options := spindle.Options{Loop: loop.Options{Name: "redis"}} // for package inspect
	return options.Run(ctx, func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "listening on", ln.Addr())
		return serve(ctx, ln)
	})
}

func serve(ctx context.Context, ln *stream.Listener) error {
	s := &store{loop: spindle.LoopOf(ctx), entries: map[string]*entry{}}
	return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
		out := bufio.NewWriter(c)
		err := s.converse(stream.NewReader(flushReader{c, out}, sizeLimit), reply{out})
		var broken protocolError
		switch {
		case errors.As(err, &broken):
			reply{out}.err("ERR Protocol error: " + string(broken))
		case err != nil: // the connection has failed
			return err
		}
		return out.Flush()
	})
}

// flushReader flushes the answers before each read, that is, when no more commands are
// buffered. A client that sends many commands at once gets many answers at once, and a
// client that waits for an answer gets it.
type flushReader struct {
	c   *stream.Conn
	out *bufio.Writer
}

func (r flushReader) Read(p []byte) (int, error) {
	if err := r.out.Flush(); err != nil {
		return 0, err
	}
	return r.c.Read(p)
}

// converse carries out commands until the client closes its side or sends QUIT.
func (s *store) converse(in *stream.Reader, out reply) error {
	for {
		args, err := readCommand(in)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case len(args) > 0 && s.do(args, out):
			return nil
		}
	}
}
