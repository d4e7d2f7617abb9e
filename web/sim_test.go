package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

// simulated serves h inline under virtual time, sends it a request, and calls fn with the
// connection.
func simulated(t *testing.T, s *web.Server, request string, fn func(ctx context.Context, c *stream.Conn, br *bufio.Reader) error) {
	t.Helper()
	sim.Test(t, func(ctx context.Context) error {
		s.Handler = web.Inline(s.Handler)
		sv, err := s.Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		c, err := stream.Dial(ctx, "tcp", sv.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := io.WriteString(c, request); err != nil {
			return err
		}
		return errors.Join(fn(ctx, c, bufio.NewReader(c)), sv.Shutdown(ctx))
	})
}

// TestSimulatedServer serves in a simulation: bytes come late and in pieces, an hour passes in
// no time, and time-outs are exact.
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
		w.Link(host, client).Set(sim.LinkOptions{Latency: sim.Uniform(time.Millisecond, 20*time.Millisecond), Dribble: 0.5})
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
			if idle := spindle.Now(ctx).Sub(before); (idle - 2*time.Minute).Abs() > time.Second {
				return fmt.Errorf("closed after %v", idle)
			}
			return nil
		})
	})
}

// TestSimulatedSlowloris checks that sending a byte a second, of a header or a body, does not
// extend the time-outs.
func TestSimulatedSlowloris(t *testing.T) {
	server := &web.Server{
		HeaderTimeout: 10 * time.Second,
		BodyTimeout:   20 * time.Second,
		Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			fmt.Fprint(w, err)
		})),
	}
	for _, tt := range []struct {
		name, begin, want string
		after             time.Duration
	}{
		{"header", "GET / HTTP/1.1\r\nX: ", "408", 10 * time.Second},
		{"second header", "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nX: ", "408", 10 * time.Second},
		{"body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n", "took too long", 20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := sim.NewWorld(1)
			host, client := w.Host("server"), w.Host("client")
			host.Serve(func(ctx context.Context) error { return server.ListenAndServe(ctx, ":80") })
			client.Go(func(ctx context.Context) error {
				c, err := stream.Dial(ctx, "tcp", "server:80")
				if err != nil {
					return err
				}
				defer c.Close()
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					begun := spindle.Now(ctx)
					io.WriteString(c, tt.begin)
					n.Go(func(ctx context.Context) error {
						for {
							if err := spindle.Sleep(ctx, time.Second); err != nil {
								return err
							}
							io.WriteString(c, "x") // fails when the server has closed
						}
					})
					all, err := io.ReadAll(c)
					took := spindle.Now(ctx).Sub(begun)
					if !strings.Contains(string(all), tt.want) || took < tt.after || took > tt.after+2*time.Second {
						t.Errorf("after %v: %q, %v", took, all, err)
					}
					n.Scope().Cancel(nil)
					return nil
				})
			})
			if err := w.Run(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSimulatedUploadWaits checks that the client waits for a handler that does not read, and
// that the server buffers no more than its limit.
func TestSimulatedUploadWaits(t *testing.T) {
	const size = 10 << 20
	sent := 0 // one program runs at a time
	server := &web.Server{Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		spindle.Sleep(r.Context(), time.Minute)
		if sent > 2<<20 {
			t.Errorf("%d bytes were taken from the client", sent)
		}
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}))}
	w := sim.NewWorld(1)
	host, client := w.Host("server"), w.Host("client")
	host.Serve(func(ctx context.Context) error { return server.ListenAndServe(ctx, ":80") })
	client.Go(func(ctx context.Context) error {
		c, err := stream.Dial(ctx, "tcp", "server:80")
		if err != nil {
			return err
		}
		defer c.Close()
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size)
		for chunk := make([]byte, 64<<10); sent < size; sent += len(chunk) {
			if _, err := c.Write(chunk); err != nil {
				return err
			}
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(res.Body)
		if want := fmt.Sprint(size, nil); string(body) != want {
			t.Errorf("got %q, want %q", body, want)
		}
		return err
	})
	if err := w.Run(); err != nil {
		t.Error(err)
	}
}

// TestSimulatedHijackForgetsTimeouts checks that the server's write time-out and the request's
// deadlines do not apply to a hijacked connection.
func TestSimulatedHijackForgetsTimeouts(t *testing.T) {
	server := &web.Server{WriteTimeout: time.Second, Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			w.Write(make([]byte, 4<<20))
			return
		}
		now := spindle.LoopOf(r.Context()).Internal().Kernel().Wall()
		rc := http.NewResponseController(w)
		rc.SetWriteDeadline(now.Add(time.Second))
		nc, _, err := rc.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		nc.SetWriteDeadline(now.Add(time.Minute))
		for err == nil {
			_, err = nc.Write(make([]byte, 1<<20))
		}
		if err != os.ErrDeadlineExceeded {
			t.Errorf("ended by %v", err)
		}
	}))}
	sim.Explore(t, 1, func(w *sim.World) {
		host, client := w.Host("server"), w.Host("client")
		host.Serve(func(ctx context.Context) error { return server.ListenAndServe(ctx, ":80") })
		client.Go(func(ctx context.Context) error {
			c, err := stream.Dial(ctx, "tcp", "server:80")
			if err != nil {
				return err
			}
			defer c.Close()
			io.WriteString(c, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				return err
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil {
				return err
			}
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			return spindle.Sleep(ctx, 2*time.Minute)
		})
	})
}

// TestSimulatedWriteTimeoutIsNotProlonged checks that a peer that reads nothing does not
// restart the write time-out by closing its sending side.
func TestSimulatedWriteTimeoutIsNotProlonged(t *testing.T) {
	server := &web.Server{WriteTimeout: 30 * time.Second, MaxConns: 1, Lean: func(c *web.LeanCtx) bool {
		if string(c.Path()) == "/large" {
			c.Write(make([]byte, 8<<20))
		}
		return true
	}}
	w := sim.NewWorld(1)
	host, client := w.Host("server"), w.Host("client")
	host.Serve(func(ctx context.Context) error { return server.ListenAndServe(ctx, ":80") })
	client.Go(func(ctx context.Context) error {
		slow, err := stream.Dial(ctx, "tcp", "server:80")
		if err != nil {
			return err
		}
		defer slow.Close()
		io.WriteString(slow, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
		begun := spindle.Now(ctx)
		spindle.Sleep(ctx, 20*time.Second)
		slow.CloseWrite()
		next, err := stream.Dial(ctx, "tcp", "server:80")
		if err != nil {
			return err
		}
		defer next.Close()
		io.WriteString(next, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if _, err := http.ReadResponse(bufio.NewReader(next), nil); err != nil {
			return err
		}
		if took := spindle.Now(ctx).Sub(begun); took < 30*time.Second || took > 35*time.Second {
			t.Errorf("after %v", took)
		}
		return nil
	})
	if err := w.Run(); err != nil {
		t.Error(err)
	}
}

// TestHandlersOnGoroutinesAreRefusedInASimulation checks that the run fails and the message
// says what to use.
func TestHandlersOnGoroutinesAreRefusedInASimulation(t *testing.T) {
	plain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })
	mux := http.NewServeMux()
	mux.Handle("/plain", plain)
	mux.Handle("/inline", web.Inline(plain))
	for name, handler := range map[string]http.Handler{"a plain handler": plain, "a mux": mux} {
		setup := func(w *sim.World) {
			server := &web.Server{Handler: handler}
			w.Host("server").Serve(func(ctx context.Context) error { return server.ListenAndServe(ctx, ":80") })
			w.Host("client").Go(func(ctx context.Context) error {
				for _, path := range []string{"/inline", "/plain"} {
					c, err := stream.Dial(ctx, "tcp", "server:80")
					if err != nil {
						return err
					}
					defer c.Close()
					fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
					if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
						return err
					}
				}
				return nil
			})
		}
		refused := func(t *testing.T, err error) {
			for _, want := range []string{"host server", "web.Inline"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("it does not say %q: %v", want, err)
				}
			}
		}
		t.Run(name+" in a World", func(t *testing.T) {
			w := sim.NewWorld(1)
			setup(w)
			refused(t, w.Run())
		})
		t.Run(name+" in Find", func(t *testing.T) {
			f := sim.Search{Runs: 3}.Find(t.Context(), setup)
			if f == nil {
				t.Fatal("nothing fails")
			}
			refused(t, f.Err)
		})
		t.Run(name+" in Explore", func(t *testing.T) {
			if os.Getenv("SPINDLE_TEST_CHILD") != "" {
				sim.Explore(t, 3, setup)
				return
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$")
			cmd.Env = append(os.Environ(), "SPINDLE_TEST_CHILD=1", "TMPDIR="+t.TempDir())
			said, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("it passes: %s", said)
			}
			refused(t, errors.New(string(said)))
		})
	}
}
