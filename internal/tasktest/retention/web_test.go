package retention_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// TestEndedRequestsKeepNothing: neither the server, which goes on, nor the Transport keeps a
// request, its body or its response.
func TestEndedRequestsKeepNothing(t *testing.T) {
	upload := func(w *watch) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			follow(w, "request", r)
			l := w.load("local variable")
			r = r.WithContext(w.with(r.Context()))
			body, err := io.ReadAll(r.Body)
			follow(w, "body", &body[0])
			if spindle.ScopeOf(r.Context()) != nil {
				follow(w, "scope", spindle.ScopeOf(r.Context()))
				err = errors.Join(err, spindle.Sleep(r.Context(), time.Millisecond))
			}
			if err != nil {
				http.Error(rw, err.Error(), 500)
			}
			l.use()
			rw.Write(body)
		}
	}
	post := func(ctx context.Context, w *watch, c *http.Client, url string) error {
		req, err := http.NewRequestWithContext(w.with(ctx), "POST", url, bytes.NewReader(w.load("data").data[:]))
		if err != nil {
			return err
		}
		res, err := c.Do(follow(w, "request of the client", req))
		if err != nil {
			return err
		}
		follow(w, "response", res)
		body, err := io.ReadAll(res.Body)
		if err == nil && (res.StatusCode != 200 || len(body) != len(load{}.data)) {
			err = errors.New(res.Status)
		}
		return errors.Join(err, res.Body.Close())
	}
	for name, handler := range map[string]func(*watch) http.Handler{
		"inline":    func(w *watch) http.Handler { return web.Inline(upload(w)) },
		"goroutine": func(w *watch) http.Handler { return upload(w) },
		"panic": func(w *watch) http.Handler {
			return web.Inline(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				upload(w)(rw, r)
				rw.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &watch{}
			checkServer(t, w, handler(w), func(ctx context.Context, address string, c *http.Client) error {
				err := post(ctx, w, c, "http://"+address)
				if name == "panic" && errors.Is(err, io.ErrUnexpectedEOF) {
					err = nil
				}
				return err
			})
		})
	}
	t.Run("time-out", func(t *testing.T) {
		w := &watch{}
		wait := web.Inline(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			follow(w, "request", r)
			io.Copy(io.Discard, r.Body)
			spindle.Sleep(w.with(r.Context()), time.Hour)
		}))
		checkServer(t, w, wait, func(ctx context.Context, address string, c *http.Client) error {
			return timedOut(ctx, w, func(ctx context.Context) error { return post(ctx, w, c, "http://"+address) })
		})
	})
	t.Run("body left open", func(t *testing.T) {
		w := &watch{}
		checkServer(t, w, web.Inline(upload(w)), func(ctx context.Context, address string, c *http.Client) error {
			req, err := http.NewRequestWithContext(w.with(ctx), "POST", "http://"+address, bytes.NewReader(w.load("data").data[:]))
			if err != nil {
				return err
			}
			res, err := c.Do(follow(w, "request of the client", req))
			if err != nil {
				return err
			}
			return follow(w, "response", res).Body.Close()
		})
	})
}

// checkServer serves h, calls use several times, and checks that nothing is kept while the
// server goes on.
func checkServer(t *testing.T, w *watch, h http.Handler, use func(ctx context.Context, address string, c *http.Client) error) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		sv, err := (&web.Server{Handler: h}).Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		transport := &web.Transport{}
		err = several(ctx, w, func(ctx context.Context, w *watch) error {
			return use(ctx, sv.Addr().String(), &http.Client{Transport: transport})
		})
		if err == nil {
			err = w.collected(func() error { return spindle.Sleep(ctx, time.Millisecond) })
		}
		return errors.Join(err, sv.Shutdown(ctx))
	})
	if err != nil {
		t.Error(err)
	}
}

// TestEndedWebSocketsKeepNothing: neither side keeps a WebSocket that has ended.
func TestEndedWebSocketsKeepNothing(t *testing.T) {
	accept := func(w *watch, echo func(ctx context.Context, c *ws.Conn) error) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			follow(w, "request", r)
			c, err := ws.Accept(rw, r, ws.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			follow(w, "WebSocket of the server", c)
			if err := echo(w.with(r.Context()), c); err != nil {
				t.Error(err)
			}
		})
	}
	echo := func(ctx context.Context, c *ws.Conn) error {
		for {
			kind, message, err := c.Read(ctx)
			if ws.CodeOf(err) == ws.NormalClosure {
				return nil
			}
			if err == nil {
				err = c.Write(ctx, kind, message)
			}
			if err != nil {
				return err
			}
		}
	}
	talk := func(w *watch) func(ctx context.Context, address string, _ *http.Client) error {
		return func(ctx context.Context, address string, _ *http.Client) error {
			c, err := ws.Dial(w.with(ctx), "ws://"+address, ws.Options{})
			if err != nil {
				return err
			}
			follow(w, "WebSocket of the client", c)
			if err := c.Write(w.with(ctx), ws.Binary, w.load("message").data[:]); err != nil {
				return err
			}
			_, _, err = c.Read(w.with(ctx))
			return errors.Join(err, c.Close(ws.NormalClosure, ""))
		}
	}
	for name, where := range map[string]func(http.Handler) http.Handler{
		"inline":    web.Inline,
		"goroutine": func(h http.Handler) http.Handler { return h },
	} {
		t.Run(name, func(t *testing.T) {
			w := &watch{}
			checkServer(t, w, where(accept(w, echo)), talk(w))
		})
	}
	t.Run("callbacks", func(t *testing.T) {
		w := &watch{}
		h := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			follow(w, "request", r)
			if err := ws.Upgrade(rw, r, follow(w, "handler", &echoing{}), ws.Options{}); err != nil {
				t.Error(err)
			}
		})
		checkServer(t, w, web.Inline(h), talk(w))
	})
	t.Run("lost", func(t *testing.T) {
		w := &watch{}
		checkServer(t, w, web.Inline(accept(w, func(ctx context.Context, c *ws.Conn) error {
			_, _, err := c.Read(ctx)
			if errors.Is(err, io.ErrUnexpectedEOF) || err == nil {
				return nil
			}
			return err
		})), func(ctx context.Context, address string, _ *http.Client) error {
			c, err := ws.Dial(ctx, "ws://"+address, ws.Options{})
			if err != nil {
				return err
			}
			return follow(w, "WebSocket of the client", c).CloseNow()
		})
	})
}

// echoing is a ws.Handler.
type echoing struct{ load }

func (h *echoing) OnOpen(*ws.Socket)                                 {}
func (h *echoing) OnMessage(s *ws.Socket, k ws.Kind, message []byte) { s.Send(k, message) }
func (h *echoing) OnClose(*ws.Socket, error)                         { h.use() }
