package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

// TestSimulatedServer serves in simulated worlds: bytes come late and in pieces, an
// hour passes in no time, and time-outs are exact.
func TestSimulatedServer(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("POST /echo/{name}", web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %v", r.PathValue("name"), body, err)
	})))
	mux.Handle("/sleep", web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, spindle.Sleep(r.Context(), time.Hour))
	})))
	server := &web.Server{
		Handler: mux,
		Lean:    web.LeanRoutes(map[string]func(*web.LeanCtx){"/lean": func(c *web.LeanCtx) { c.WriteString("lean") }}),
	}
	sim.Explore(t, 20, func(w *sim.World) {
		host, client := w.Host("server"), w.Host("client")
		w.Link(host, client).Latency(sim.Uniform(time.Millisecond, 20*time.Millisecond)).Dribble(0.5)
		host.Serve(func(ctx context.Context) error { return server.ListenAndServe(ctx, ":80") })
		client.Go(func(ctx context.Context) error {
			c, err := stream.Dial(ctx, "tcp", "server:80")
			if err != nil {
				return err
			}
			defer c.Close()
			br := bufio.NewReader(c)
			for _, step := range []struct{ request, want string }{
				{"GET /lean HTTP/1.1\r\nHost: a\r\n\r\n", "lean"},
				{"POST /echo/me HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "me hello <nil>"},
				{"GET /sleep HTTP/1.1\r\nHost: a\r\n\r\n", "<nil>"},
				{"GET /lean HTTP/1.1\r\nHost: a\r\n\r\n", "lean"},
			} {
				if _, err := io.WriteString(c, step.request); err != nil {
					return err
				}
				res, err := http.ReadResponse(br, nil)
				if err != nil {
					return err
				}
				body, err := io.ReadAll(res.Body)
				if err != nil {
					return err
				}
				if string(body) != step.want {
					return fmt.Errorf("got %q, want %q", body, step.want)
				}
			}
			before := spindle.Now(ctx)
			if _, err := br.ReadByte(); err != io.EOF {
				return fmt.Errorf("after being idle: %w", err)
			}
			if idle := spindle.Now(ctx) - before; (idle - 2*time.Minute).Abs() > time.Second {
				return fmt.Errorf("closed after %v", idle)
			}
			return nil
		})
	})
}
