package stream_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/stream"
)

func ExampleTLS() {
	// A certificate made for this example; tls.LoadX509KeyPair reads yours.
	certificate, roots := tlstest.Identity().Server.Certificates[0], tlstest.Identity().Client.RootCAs
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		secure := stream.TLS{Config: &tls.Config{Certificates: []tls.Certificate{certificate}}}
		echo := func(ctx context.Context, plain *stream.Conn) error {
			c := secure.Server(plain)
			defer c.Close()
			_, err := io.Copy(c, c)
			return err
		}
		spindle.RootNursery(ctx).Go(func(ctx context.Context) error { return stream.Serve(ctx, ln, echo) })

		c, err := stream.TLS{Config: &tls.Config{RootCAs: roots}}.Dial(ctx, "tcp", ln.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		fmt.Fprintln(c, "hello")
		line, err := bufio.NewReader(c).ReadString('\n')
		fmt.Print(line, tls.VersionName(c.ConnectionState().Version))
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// hello
	// TLS 1.3
}
