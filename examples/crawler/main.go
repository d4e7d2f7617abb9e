// Command crawler follows the links of a web site, a few requests at a time. The
// requests are made by net/http, which blocks and therefore runs on goroutines;
// all that is shared (what was seen, what was found) belongs to tasks of one loop
// and needs no lock.
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

// crawler is one journey through one site.
type crawler struct {
	limiter *cosync.Limiter
	seen    map[string]bool
	out     io.Writer
}

// crawl visits start and everything on its host that it leads to.
func (c *crawler) crawl(ctx context.Context, start string) error {
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		c.seen[start] = true
		n.Go(func(ctx context.Context) error { return c.visit(ctx, n, start) })
		return nil
	}) // ends when the last page has led to no new one
}

// visit fetches a page and starts a task for each new link in it. A page that
// cannot be had is reported, and the journey goes on; a cancellation ends it.
func (c *crawler) visit(ctx context.Context, n *spindle.Nursery, page string) error {
	if err := c.limiter.Acquire(ctx); err != nil {
		return err
	}
	body, err := spindle.Blocking(ctx, func() (string, error) { return get(ctx, page) })
	c.limiter.Release()
	if ctx.Err() != nil {
		// The request failed because we are cancelled. net/http has an error
		// of its own for that; Checkpoint has the scope's.
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

// get runs on a goroutine. The task's ctx is a context like any other: when it is
// cancelled, net/http gives the request up.
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
