package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

// TestSimulatedTransport asks a simulated server, over a network that is slow and cuts
// everything into pieces; what is idle, or left unread, is closed when it should be.
func TestSimulatedTransport(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("POST /echo", web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v", body, err)
	})))
	server := &web.Server{Handler: mux, IdleTimeout: -1}
	// How long a connection with an unread body is kept, by its length: half of it
	// has come, most of it has not, all of it has.
	patience := map[string]time.Duration{"/50000": time.Second, "/1000000": 0, "/4": 90 * time.Second}
	sim.Explore(t, 20, func(w *sim.World) {
		host, client := w.Host("server"), w.Host("client")
		w.Link(host, client).Set(sim.LinkOptions{Latency: sim.Uniform(time.Millisecond, 20*time.Millisecond), Dribble: 0.5})
		host.Serve(func(ctx context.Context) error { return server.ListenAndServe(ctx, ":80") })
		slow := w.Host("slow")
		slow.Serve(func(ctx context.Context) error {
			ln, err := stream.Listen(ctx, "tcp", ":80")
			if err != nil {
				return err
			}
			return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return nil
				}
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\nhalf", req.URL.Path[1:])
				before := spindle.Now(ctx)
				io.Copy(io.Discard, c)
				want := patience[req.URL.Path]
				if waited := spindle.Now(ctx).Sub(before); (waited - want).Abs() > 200*time.Millisecond {
					return fmt.Errorf("the client kept %s for %v", req.URL.Path, waited)
				}
				return nil
			})
		})
		client.Go(func(ctx context.Context) error {
			c := &http.Client{Transport: &web.Transport{}}
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
			for _, path := range []string{"/50000", "/1000000", "/4"} {
				req, err := http.NewRequestWithContext(ctx, "GET", "http://slow"+path, nil)
				if err != nil {
					return err
				}
				res, err := c.Do(req)
				if err != nil {
					return err
				}
				res.Body.Close()
			}
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
					return fmt.Errorf("kept %v at %v", open, spindle.LoopOf(ctx).Time())
				}
			}
			return nil
		})
	})
}

// TestHeaderTimeoutBeginsAfterTheUpload checks that the time a body takes does not count,
// and that the time of the server does.
func TestHeaderTimeoutBeginsAfterTheUpload(t *testing.T) {
	const upload, timeout = 30 * time.Second, 10 * time.Second
	w := sim.NewWorld(1)
	host, client := w.Host("server"), w.Host("client")
	host.Serve(func(ctx context.Context) error {
		server := &web.Server{BodyTimeout: -1, Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if r.URL.Path == "/late" {
				spindle.Sleep(r.Context(), 2*timeout)
			}
		}))}
		return server.ListenAndServe(ctx, ":80")
	})
	client.Go(func(ctx context.Context) error {
		c := &http.Client{Transport: &web.Transport{HeaderTimeout: timeout}}
		for path, want := range map[string]error{"/prompt": nil, "/late": os.ErrDeadlineExceeded} {
			slow := readerFunc(func([]byte) (int, error) {
				spindle.Sleep(ctx, upload)
				return 0, io.EOF
			})
			began := w.Now()
			_, _, err := do(ctx, c, "POST", "http://server"+path, slow)
			took := w.Now() - began - upload
			if want != nil {
				took -= timeout
			}
			if !errors.Is(err, want) || took < 0 || took > time.Second {
				return fmt.Errorf("%s: %v after %v", path, err, w.Now()-began)
			}
		}
		return nil
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}
