package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// webPlane runs a server with the handlers until fn returns.
func webPlane(t *testing.T, bus relay.Bus, o relay.CallerOptions, handlers func(c *relay.Caller) http.Handler, fn func(ctx context.Context, url string) error) {
	t.Helper()
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		c := newCaller(t, ctx, bus, o)
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		protocols.SetUnencryptedHTTP2(true)
		sv, err := (&web.Server{Handler: handlers(c), Protocols: protocols, ExtendedConnect: true}).Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		err = fn(ctx, "http://"+sv.Addr().String())
		return errors.Join(err, spindle.Grace(ctx, time.Minute, sv.Shutdown), c.Close())
	})
	if err != nil {
		t.Error(err)
	}
}

// post sends a request from a task.
func post(ctx context.Context, url, accept, body string) (*http.Response, string, error) {
	client := &http.Client{Transport: &web.Transport{MaxIdle: -1}}
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	res, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res, string(text), err
}

// work is a handler that does what its request says.
func work(release chan struct{}) relay.Handler {
	return func(ctx context.Context, r *relay.Request) ([]byte, error) {
		switch string(r.Body) {
		case "fail":
			return nil, errors.New("secret")
		case "block":
			<-release
		case "wait":
			<-ctx.Done()
			return nil, ctx.Err()
		case "items":
			for _, item := range []string{"one", "two\nlines", "three"} {
				if err := r.Send(ctx, []byte(item)); err != nil {
					return nil, err
				}
			}
			return nil, nil
		case "look":
			r.SetHeader("Content-Type", "text/plain")
			return []byte(r.Headers["Http-Method"] + " " + r.Headers["Http-Path"] + "?" + r.Headers["Http-Query"] + " " + r.Trace.String()[:35]), nil
		}
		return r.Body, nil
	}
}

func Test(t *testing.T) {
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"in tasks":      web.Inline,
		"on goroutines": func(h http.Handler) http.Handler { return h },
	} {
		t.Run(name, func(t *testing.T) {
			bus := relay.NewLocal(relay.LocalOptions{})
			serve(t, bus, "work", relay.ServeOptions{}, work(nil))
			var h, slow, none *gateway.Handler
			webPlane(t, bus, relay.CallerOptions{}, func(c *relay.Caller) http.Handler {
				h = gateway.New(c, gateway.Route{Subject: "work", Timeout: time.Minute, MaxBody: 100})
				slow = gateway.New(c, gateway.Route{Subject: "work", Timeout: 100 * time.Millisecond})
				none = gateway.New(c, gateway.Route{Subject: "none", RetryAfter: 1500 * time.Millisecond})
				mux := http.NewServeMux()
				mux.Handle("/work", wrap(h))
				mux.Handle("/slow", wrap(slow))
				mux.Handle("/none", wrap(none))
				mux.Handle("/ready", wrap(gateway.Ready(bus)))
				return mux
			}, func(ctx context.Context, url string) error {
				const events = "text/event-stream"
				for _, c := range []struct {
					path, accept, body string
					status             int
					want               string
				}{
					{"/work?a=b", "", "look", 200, "POST /work?a=b 00-0af7651916cd43dd8448eb211c80319c"},
					{"/work", "", "echo", 200, "echo"},
					{"/work", "", "fail", 500, "Internal Server Error\n"},
					{"/slow", "", "wait", 504, "Gateway Timeout\n"},
					{"/work", "", strings.Repeat("x", 101), 413, "Request Entity Too Large\n"},
					{"/none", "", "", 503, "Service Unavailable\n"},
					{"/ready", "", "", 200, "ready\n"},
					{"/work", events, "items", 200, "data: one\n\ndata: two\ndata: lines\n\ndata: three\n\n"},
					{"/work", events, "fail", 500, "Internal Server Error\n"},
					{"/none", events, "", 503, "Service Unavailable\n"},
				} {
					res, text, err := post(ctx, url+c.path, c.accept, c.body)
					if err != nil {
						return err
					}
					if res.StatusCode != c.status || text != c.want {
						t.Errorf("%s %.10s: %s, %q", c.path, c.body, res.Status, text)
					}
					if c.status == 503 && res.Header.Get("Retry-After") != "2" {
						t.Errorf("%s: %v", c.path, res.Header)
					}
				}
				if s := h.Stats(); s != (gateway.Stats{OK: 3, Failed: 2, Refused: 1}) {
					t.Errorf("%+v", s)
				}
				if s := slow.Stats(); s != (gateway.Stats{TimedOut: 1}) {
					t.Errorf("%+v", s)
				}
				if s := none.Stats(); s.Full != 2 {
					t.Errorf("%+v", s)
				}
				return socket(ctx, t, url)
			})
		})
	}
}

// socket makes calls over a WebSocket.
func socket(ctx context.Context, t *testing.T, url string) error {
	c, err := ws.Dial(ctx, "ws"+strings.TrimPrefix(url, "http")+"/work", ws.Options{})
	if err != nil {
		return err
	}
	defer c.CloseNow()
	for _, message := range []string{"echo", "items"} {
		if err := c.Write(ctx, ws.Text, []byte(message)); err != nil {
			return err
		}
	}
	for _, want := range []string{"echo", "one", "two\nlines", "three"} {
		if _, got, err := c.Read(ctx); err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	if err := c.Write(ctx, ws.Text, []byte("fail")); err != nil {
		return err
	}
	if _, got, err := c.Read(ctx); ws.CodeOf(err) != ws.InternalError {
		t.Errorf("%q, %v", got, err)
	}
	return nil
}

// TestClientLeaves: its call is cancelled, and counted.
func TestClientLeaves(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	w, _ := serve(t, bus, "work", relay.ServeOptions{}, work(nil))
	var h *gateway.Handler
	webPlane(t, bus, relay.CallerOptions{}, func(c *relay.Caller) http.Handler {
		h = gateway.New(c, gateway.Route{Subject: "work", Timeout: time.Minute})
		return web.Inline(h)
	}, func(ctx context.Context, url string) error {
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				_, _, err := post(ctx, url, "", "wait")
				return err
			})
			for w.Stats().Running == 0 {
				if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
					return err
				}
			}
			n.Scope().Cancel(nil)
			return nil
		})
		for err == nil && (h.Stats().ClientGone == 0 || w.Stats().Canceled == 0) {
			err = spindle.Sleep(ctx, time.Millisecond)
		}
		return err
	})
}

// TestFull: 503 at once, instead of a request that waits.
func TestFull(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{Queue: 1})
	release := make(chan struct{})
	w, _ := serve(t, bus, "work", relay.ServeOptions{Concurrency: 1}, work(release))
	webPlane(t, bus, relay.CallerOptions{FailWhenFull: true}, func(c *relay.Caller) http.Handler {
		return web.Inline(gateway.New(c, gateway.Route{Subject: "work"}))
	}, func(ctx context.Context, url string) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for i := range 2 { // one runs, and one fills the queue
				n.Go(func(ctx context.Context) error {
					_, _, err := post(ctx, url, "", "block")
					return err
				})
				for w.Stats().Running < 1 || queued("work") < i {
					if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
						return err
					}
				}
			}
			res, _, err := post(ctx, url, "", "echo")
			close(release)
			if err == nil && (res.StatusCode != 503 || res.Header.Get("Retry-After") == "") {
				t.Errorf("%s %v", res.Status, res.Header)
			}
			return err
		})
	})
}

// TestKeys: a request with the key of one that runs is a conflict. The key of a WebSocket's
// handshake is not that of its messages.
func TestKeys(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	release := make(chan struct{})
	w, _ := serve(t, bus, "work", relay.ServeOptions{Results: relay.NewResults(10)}, work(release))
	var h *gateway.Handler
	webPlane(t, bus, relay.CallerOptions{}, func(c *relay.Caller) http.Handler {
		h = gateway.New(c, gateway.Route{Subject: "work", Timeout: time.Minute})
		return web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set(relay.IdempotencyKey, "k")
			h.ServeHTTP(w, r)
		}))
	}, func(ctx context.Context, url string) error {
		socket, err := ws.Dial(ctx, "ws"+strings.TrimPrefix(url, "http"), ws.Options{})
		if err != nil {
			return err
		}
		defer socket.CloseNow()
		for _, want := range []string{"one", "two"} {
			if err := socket.Write(ctx, ws.Text, []byte(want)); err != nil {
				return err
			}
			if _, got, err := socket.Read(ctx); err != nil || string(got) != want {
				t.Errorf("%q, %v", got, err)
			}
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				_, _, err := post(ctx, url, "", "block")
				return err
			})
			for w.Stats().Running < 1 {
				if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
					return err
				}
			}
			res, _, err := post(ctx, url, "", "echo")
			close(release)
			if err == nil && (res.StatusCode != http.StatusConflict || h.Stats().Refused != 1) {
				t.Errorf("%s, %+v", res.Status, h.Stats())
			}
			return err
		})
	})
}

// TestASYNC01: a handler that blocks on the loop delays unrelated requests of that loop.
func TestASYNC01(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	var released, early atomic.Bool
	answered := make(chan struct{})
	webPlane(t, bus, relay.CallerOptions{}, plane, func(ctx context.Context, url string) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			defer n.Scope().Cancel(nil)
			n.Go(func(ctx context.Context) error {
				return relay.NewWorker(bus).Serve(ctx, "work", func(context.Context, *relay.Request) ([]byte, error) {
					sent := make(chan struct{})
					go func() {
						defer close(answered)
						close(sent)
						res, err := http.Get(url + "/health")
						if err == nil {
							early.Store(!released.Load())
							res.Body.Close()
						}
					}()
					<-sent // the loop is blocked here, and cannot answer
					for range 1000 {
						runtime.Gosched() // if it could, it would
					}
					released.Store(true)
					return nil, nil
				}, relay.ServeOptions{InTasks: true})
			})
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			if _, _, err := post(ctx, url+"/work", "", ""); err != nil {
				return err
			}
			if _, err := spindle.Blocking(ctx, func() (struct{}, error) { return <-answered, nil }); err != nil {
				return err
			}
			http.DefaultClient.CloseIdleConnections()
			if early.Load() {
				t.Error("a loop that is blocked has answered")
			}
			return nil
		})
	})
}

// plane has a route for calls, and /health.
func plane(c *relay.Caller) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/work", web.Inline(gateway.New(c, gateway.Route{Subject: "work", Timeout: time.Minute})))
	mux.Handle("/health", web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") })))
	return mux
}

// TestASYNC02: with all workers blocked, the web plane answers other requests.
func TestASYNC02(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	release := make(chan struct{})
	w, _ := serve(t, bus, "work", relay.ServeOptions{Concurrency: 8}, work(release))
	webPlane(t, bus, relay.CallerOptions{}, plane, func(ctx context.Context, url string) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for range 16 { // twice as many as there are workers
				n.Go(func(ctx context.Context) error {
					res, text, err := post(ctx, url+"/work", "", "block")
					if err == nil && (res.StatusCode != 200 || !bytes.Equal([]byte(text), []byte("block"))) {
						t.Errorf("%s %q", res.Status, text)
					}
					return err
				})
			}
			for w.Stats().Running < 8 {
				if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
					return err
				}
			}
			for range 100 {
				if res, text, err := post(ctx, url+"/health", "", ""); err != nil || res.StatusCode != 200 || text != "ok" {
					t.Errorf("%q, %v", text, err)
				}
			}
			if s := w.Stats(); s.Running != 8 {
				t.Errorf("%+v", s)
			}
			close(release)
			return nil
		})
	})
}
