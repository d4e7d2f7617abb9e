package web_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

// TestSimulatedClient asks a simulated server, over a network that is slow and cuts
// everything into pieces; what is idle, or left unread, is closed when it should be.
func TestSimulatedClient(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("POST /echo", web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v", body, err)
	})))
	server := &web.Server{Handler: mux, IdleTimeout: -1}
	sim.Explore(t, 20, func(w *sim.World) {
		host, client := w.Host("server"), w.Host("client")
		w.Link(host, client).Latency(sim.Uniform(time.Millisecond, 20*time.Millisecond)).Dribble(0.5)
		host.Serve(func(ctx context.Context) error { return server.ListenAndServe(ctx, ":80") })
		slow := w.Host("slow")
		slow.Serve(func(ctx context.Context) error {
			ln, err := stream.Listen(ctx, "tcp", ":80")
			if err != nil {
				return err
			}
			return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
				if _, err := c.Read(make([]byte, 1000)); err != nil {
					return nil
				}
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\nhalf of it")
				before := spindle.Now(ctx)
				io.Copy(io.Discard, c)
				if waited := spindle.Now(ctx) - before; (waited - time.Second).Abs() > 200*time.Millisecond {
					return fmt.Errorf("the client waited %v for the rest", waited)
				}
				return nil
			})
		})
		client.Go(func(ctx context.Context) error {
			c := &http.Client{Transport: &web.Client{}}
			for i := range 3 {
				want := strings.Repeat(fmt.Sprint(i), 1+i*20_000)
				_, got, err := do(ctx, c, "POST", "http://server/echo", strings.NewReader(want))
				if err != nil {
					return err
				}
				if got != want+" <nil>" {
					return fmt.Errorf("%d bytes of %d came back", len(got), len(want))
				}
			}
			req, err := http.NewRequestWithContext(ctx, "GET", "http://slow/", nil)
			if err != nil {
				return err
			}
			res, err := c.Do(req)
			if err != nil {
				return err
			}
			res.Body.Close()
			// The connection to the server is kept for 90 seconds.
			for _, step := range []struct {
				sleep time.Duration
				open  bool
			}{{80 * time.Second, true}, {20 * time.Second, false}} {
				if err := spindle.Sleep(ctx, step.sleep); err != nil {
					return err
				}
				open := false
				for _, task := range spindle.TreeOf(ctx) {
					open = open || task.Name == "idle connection to server:80"
				}
				if open != step.open {
					return fmt.Errorf("kept %v at %v", open, spindle.Now(ctx))
				}
			}
			return nil
		})
	})
}
