package stream_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

func Example() {
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
			return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
				_, err := io.Copy(c, c)
				return err
			})
		})
		c, err := stream.Dial(ctx, "tcp", ln.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		fmt.Fprintln(c, "hello")
		line, err := bufio.NewReader(c).ReadString('\n')
		fmt.Print(line)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: hello
}
