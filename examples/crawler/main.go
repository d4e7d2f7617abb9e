// Command crawler follows the links of a web site, a few requests at a time. The requests
// use net/http, which blocks, so they run on goroutines. The shared state belongs to the
// tasks of one loop and needs no lock.
//
//	go run ./examples/crawler http://localhost:8080/
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
)

func main() {
	limit := flag.Int("limit", 4, "`N` requests at a time")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: crawler [-limit N] URL")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := spindle.Run(ctx, func(ctx context.Context) error {
		c := &crawler{limiter: cosync.NewLimiter(*limit), seen: map[string]bool{}, out: os.Stdout}
		return c.crawl(ctx, flag.Arg(0))
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "crawler:", err)
		os.Exit(1)
	}
}

// crawler is one walk through one site.
type crawler struct {
	limiter *cosync.Limiter
	seen    map[string]bool
	out     io.Writer
}

// crawl visits start and every page on its host that can be reached from it.
func (c *crawler) crawl(ctx context.Context, start string) error {
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		c.seen[start] = true
		n.Go(func(ctx context.Context) error { return c.visit(ctx, n, start) })
		return nil
	}) // returns when no page is left
}

// visit fetches a page and starts a task for each new link in it. A page that cannot be
// fetched is reported; only a cancellation ends the crawl.
func (c *crawler) visit(ctx context.Context, n *spindle.Nursery, page string) error {
	if err := c.limiter.Acquire(ctx); err != nil {
		return err
	}
	body, err := spindle.Blocking(ctx, func() (string, error) { return get(ctx, page) })
	c.limiter.Release()
	if ctx.Err() != nil {
		// The request failed because ctx was cancelled. net/http returns an error of
		// its own for that; Checkpoint returns the scope's.
		return spindle.Checkpoint(ctx)
	}
	fmt.Fprintln(c.out, page, err)
	for _, link := range links(page, body) {
		if !c.seen[link] {
			c.seen[link] = true
			n.Go(func(ctx context.Context) error { return c.visit(ctx, n, link) })
		}
	}
	return nil
}

// get runs on a goroutine. When the task's ctx is cancelled, net/http aborts the request.
func get(ctx context.Context, page string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return string(body), err
}
