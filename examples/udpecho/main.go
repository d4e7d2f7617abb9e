// Command udpecho sends each datagram back to its sender. There are no connections, so one
// task serves all clients.
//
//	go run ./examples/udpecho
//	nc -u 127.0.0.1 9000
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
	addr := flag.String("addr", "127.0.0.1:9000", "`ADDRESS` to receive at")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "udpecho:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, addr string, out io.Writer) error {
	return spindle.Run(ctx, func(ctx context.Context) error {
		c, err := stream.ListenPacket(ctx, "udp", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		fmt.Fprintln(out, "listening on", c.LocalAddr())
		return echo(c)
	})
}

func echo(c *stream.PacketConn) error {
	buf := make([]byte, 64<<10) // the longest datagram of UDP
	for {
		n, from, err := c.ReadFromAddrPort(buf)
		if err != nil {
			return err // cancelled: the server shuts down
		}
		// UDP does not promise delivery, so a failed write is ignored. After a
		// cancellation the next read fails too.
		c.WriteToAddrPort(buf[:n], from)
	}
}
