// Command tlsclient fetches a page over HTTPS. The connection is a net.Conn, so net/http
// can write the request to it and read the response from it. The loop is never blocked,
// and a time-out can end the task at any point.
//
//	go run ./examples/tlsclient https://example.com/
package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

func main() {
	timeout := flag.Duration("timeout", 30*time.Second, "`TIME` for the whole request")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := spindle.Run(ctx, func(ctx context.Context) error {
		return spindle.FailAfter(ctx, *timeout, func(ctx context.Context) error {
			return fetch(ctx, flag.Arg(0), nil, os.Stdout)
		})
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "tlsclient:", err)
		os.Exit(1)
	}
}

// fetch writes the page at url to out. A nil config uses the system's certificate
// authorities.
func fetch(ctx context.Context, url string, config *tls.Config, out io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if req.URL.Scheme != "https" {
		return fmt.Errorf("%q: the scheme must be https", url)
	}
	req.Close = true // one page, one connection

	// Dial verifies the server's certificate for this name.
	server := net.JoinHostPort(req.URL.Hostname(), cmp.Or(req.URL.Port(), "443"))
	conn, err := stream.TLS{Config: config}.Dial(ctx, "tcp", server)
	if err != nil {
		return err
	}
	defer conn.Close()

	if err := req.Write(conn); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	_, err = io.Copy(out, resp.Body)
	return err
}
