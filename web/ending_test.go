package web_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// endingConn is a kind of connection that is open when the server is ended.
type endingConn struct {
	name   string
	waited bool // the drain waits for it
	secure bool
	// client uses a connection. It returns what it got: "done" for a complete response, or
	// how the connection ended.
	client func(ctx context.Context, c net.Conn) string
	want   string // for a connection that is not waited for
}

const (
	endingAt = time.Second      // when the server is ended
	busyFor  = 10 * time.Second // how long a request takes
)

// endingConns are the kinds of connections in virtual time.
var endingConns = []endingConn{
	{name: "inline", waited: true, client: asks("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")},
	{name: "TLS", waited: true, secure: true, client: asks("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")},
	{name: "streaming response", waited: true, client: asks("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")},
	{name: "upload", waited: true, client: uploads("/upload")},
	{name: "lean, with a body", waited: true, client: uploads("/lean")},
	{name: "WebSocket", client: speaks, want: "going away"},
	{name: "hijacked", client: asks("GET /hijack HTTP/1.1\r\nHost: a\r\n\r\n"), want: "hijacked"},
	{name: "idle", client: func(ctx context.Context, c net.Conn) string {
		if got := asks("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")(ctx, c); got != "done" {
			return got
		}
		_, err := c.Read(make([]byte, 1))
		return fmt.Sprint(err)
	}, want: "EOF"},
	{name: "unused", client: func(_ context.Context, c net.Conn) string {
		_, err := c.Read(make([]byte, 1))
		return fmt.Sprint(err)
	}, want: "EOF"},
}

// asks returns a client that sends a request and reads the response.
func asks(request string) func(context.Context, net.Conn) string {
	return func(_ context.Context, c net.Conn) string {
		if _, err := io.WriteString(c, request); err != nil {
			return err.Error()
		}
		return answerOn(c)
	}
}

// answerOn returns the last line of a response's body.
func answerOn(c net.Conn) string {
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "cut"
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return "cut"
	}
	return string(body[bytes.LastIndexByte(body, '\n')+1:])
}

// uploads returns a client that sends a byte of a body each second.
func uploads(path string) func(context.Context, net.Conn) string {
	return func(ctx context.Context, c net.Conn) string {
		n := int(busyFor / time.Second)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", path, n)
		for range n {
			if err := spindle.Sleep(ctx, time.Second); err != nil {
				return err.Error()
			}
			if _, err := io.WriteString(c, "x"); err != nil {
				break // the answer says why
			}
		}
		return answerOn(c)
	}
}

// speaks is a client that reads from a WebSocket.
func speaks(_ context.Context, c net.Conn) string {
	io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	br := bufio.NewReader(c)
	res, err := http.ReadResponse(br, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		return "no upgrade"
	}
	frame := make([]byte, 4)
	if _, err := io.ReadFull(br, frame); err != nil || frame[0] != 0x88 || frame[2] != 0x03 || frame[3] != 0xe9 {
		return fmt.Sprintf("%x %v", frame, err)
	}
	return "going away" // and the client closes without an answer
}

// endingServer makes a server for all kinds. It reports the causes that handlers saw.
func endingServer(cause *error) *web.Server {
	mux := http.NewServeMux()
	pause := func(w http.ResponseWriter, r *http.Request, d time.Duration) bool {
		if err := spindle.Sleep(r.Context(), d); err != nil {
			*cause = context.Cause(r.Context())
			return false
		}
		return true
	}
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "done") })
	mux.HandleFunc("/wait", func(w http.ResponseWriter, r *http.Request) {
		if pause(w, r, busyFor) {
			io.WriteString(w, "done")
		}
	})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		for range busyFor / time.Second {
			fmt.Fprintln(w, "more")
			http.NewResponseController(w).Flush()
			if !pause(w, r, time.Second) {
				return
			}
		}
		io.WriteString(w, "done")
	})
	mux.HandleFunc("/upload", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			*cause = context.Cause(r.Context())
			return
		}
		io.WriteString(w, "done")
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhijacked")
		}
	})
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		c, err := ws.Accept(w, r, ws.Options{})
		if err == nil {
			c.Read(r.Context())
		}
	})
	return &web.Server{
		Handler: web.Inline(mux),
		Lean: web.LeanRoutes(map[string]func(*web.LeanCtx){"/lean": func(c *web.LeanCtx) {
			c.ReadBody(1000, func(c *web.LeanCtx, _ []byte) { c.WriteString("done") })
		}}),
	}
}

// endingPlaces are where a server runs in virtual time. Each serves until endingAt and
// returns the server's error.
var endingPlaces = map[string]func(o loop.Options, grace time.Duration, s *web.Server) error{
	"Run": func(o loop.Options, grace time.Duration, s *web.Server) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		return spindle.Options{Loop: o, Grace: grace}.Run(ctx, func(ctx context.Context) error {
			spindle.LoopOf(ctx).CallLater(endingAt, cancel)
			return s.ListenAndServe(ctx, ":80")
		})
	},
	"a nursery of Run": func(o loop.Options, grace time.Duration, s *web.Server) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		return spindle.Options{Loop: o, Grace: grace}.Run(ctx, func(ctx context.Context) error {
			spindle.LoopOf(ctx).CallLater(endingAt, cancel)
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(func(ctx context.Context) error { return s.ListenAndServe(ctx, ":80") })
				return nil
			})
		})
	},
	"RunOn": func(o loop.Options, grace time.Duration, s *web.Server) (err error) {
		l, err := loop.New(o)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		l.CallLater(endingAt, cancel)
		spindle.Options{Grace: grace}.RunOn(ctx, l, func(ctx context.Context) error { return s.ListenAndServe(ctx, ":80") },
			func(ended error) {
				err = ended
				l.Stop()
			})
		ran := l.Run(context.Background())
		return errors.Join(ran, err, l.Close())
	},
	"Group": func(o loop.Options, _ time.Duration, s *web.Server) error {
		g, err := loop.NewGroup(2, o)
		if err != nil {
			return err
		}
		sv, err := s.ListenGroup(g, "tcp", ":80")
		if err != nil {
			return errors.Join(err, g.Close())
		}
		g.Loops()[0].CallLater(endingAt, func() {
			sv.Drain(g.Stop)
			g.Loops()[0].CallLater(s.DrainTimeout, func() {
				err = web.ErrDrainTimeout
				sv.Close()
			})
		})
		ran := g.Run(context.Background())
		return errors.Join(ran, err, g.Close())
	},
}

// TestServerEndsAsItsTimesSay: a request that is under way when the server is ended gets the
// whole drain time-out, wherever the server runs and whatever grace its run has. After the
// drain time-out it is cut, and its cause says so. Nothing has to be forced to exit.
func TestServerEndsAsItsTimesSay(t *testing.T) {
	cert, trust := certified(t)
	for place, run := range endingPlaces {
		for _, grace := range []time.Duration{time.Millisecond, 0, time.Minute} {
			for _, drain := range []time.Duration{6 * time.Second, 20 * time.Second} {
				for _, kind := range endingConns {
					t.Run(fmt.Sprintf("%s/grace %v/drain %v/%s", place, grace, drain, kind.name), func(t *testing.T) {
						var cause, ended error
						var end time.Duration
						var got string
						s := endingServer(&cause)
						s.DrainTimeout = drain
						if kind.secure {
							s.TLS = cert
						}
						sim.Explore(t, 1, func(w *sim.World) {
							w.Host("server").Exec(func(o loop.Options) error {
								ended = run(o, grace, s)
								end = w.Now()
								return nil
							})
							w.Host("client").Go(func(ctx context.Context) error {
								c, err := stream.Dial(ctx, "tcp", "server:80")
								if err != nil {
									return err
								}
								defer c.Close()
								var nc net.Conn = c
								if kind.secure {
									nc = tls.Client(c, &tls.Config{RootCAs: trust.RootCAs, ServerName: "example.com"})
								}
								got = kind.client(ctx, nc)
								return nil
							})
						})
						cut := kind.waited && drain < busyFor-endingAt
						want, wantEnd, wantErr := "done", busyFor, error(nil)
						switch {
						case cut:
							want, wantEnd, wantErr = "cut", endingAt+drain, web.ErrDrainTimeout
						case !kind.waited:
							want, wantEnd = kind.want, endingAt
						}
						if wantErr == nil && errors.Is(ended, context.Canceled) {
							ended = nil // the cause of the run
						}
						if got != want || (end-wantEnd).Abs() > time.Second || !errors.Is(ended, wantErr) {
							t.Errorf("the client got %q, want %q; the server ended after %v, want %v, with %v, want %v", got, want, end, wantEnd, ended, wantErr)
						}
						if errors.Is(ended, spindle.ErrStragglers) {
							t.Error(ended)
						}
						if cut != (cause != nil) && !strings.HasPrefix(kind.name, "lean") || cut && cause != nil && cause != http.ErrServerClosed {
							t.Errorf("the handler's cause is %v", cause)
						}
					})
				}
			}
		}
	}
}
