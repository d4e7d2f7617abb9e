package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// TestCallsDrain: a server that shuts down says so, refuses calls, ends those that run, and then
// closes the connection.
func TestCallsDrain(t *testing.T) {
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"in tasks":      web.Inline,
		"on goroutines": func(h http.Handler) http.Handler { return h },
	} {
		t.Run(name, func(t *testing.T) {
			bus := relay.NewLocal(relay.LocalOptions{})
			release := make(chan struct{})
			w, _ := serve(t, bus, "work", relay.ServeOptions{}, work(release))
			err := spindle.Run(t.Context(), func(ctx context.Context) error {
				caller := newCaller(t, ctx, bus, relay.CallerOptions{})
				var running atomic.Int64
				h := wrap(counted{gateway.New(caller, gateway.Route{Subject: "work", Timeout: time.Minute}), &running})
				sv, err := (&web.Server{Handler: h}).Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0")
				if err != nil {
					return err
				}
				url := "http://" + sv.Addr().String()
				busy, err := dialCalls(ctx, url)
				if err != nil {
					return err
				}
				idle, err := dialCalls(ctx, url)
				if err != nil {
					return err
				}
				if err := send(ctx, busy, `{"type":"call","id":1,"body":"block"}`); err != nil {
					return err
				}
				if err := until(ctx, func() bool { return w.Stats().Running == 1 }); err != nil {
					return err
				}
				err = spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.Go(sv.Shutdown)
					expect(ctx, t, idle, `{"type":"drain"}`)
					expectClose(ctx, t, idle, ws.GoingAway, "")
					expect(ctx, t, busy, `{"type":"drain"}`)
					if err := send(ctx, busy, `{"type":"call","id":2,"body":"echo"}`); err != nil {
						return err
					}
					expect(ctx, t, busy, `{"type":"error","id":2,"status":503,"reason":"draining"}`)
					close(release)
					expect(ctx, t, busy, `{"type":"item","id":1,"body":"block"}`, `{"type":"end","id":1}`)
					expectClose(ctx, t, busy, ws.GoingAway, "")
					return nil
				})
				return errors.Join(err, until(ctx, func() bool { return running.Load() == 0 }), caller.Close())
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCallsOrigin: pages of other hosts need leave.
func TestCallsOrigin(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	webPlane(t, bus, relay.CallerOptions{}, func(c *relay.Caller) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/own", web.Inline(gateway.New(c, gateway.Route{Subject: "work"})))
		mux.Handle("/open", web.Inline(gateway.New(c, gateway.Route{Subject: "work", CheckOrigin: func(r *http.Request) bool {
			return r.Header.Get("Origin") == "http://page.example"
		}})))
		return mux
	}, func(ctx context.Context, url string) error {
		for path, ok := range map[string]bool{"/own": false, "/open": true} {
			for _, protocols := range [][]string{{callsProtocol}, nil} {
				c, err := ws.Dial(ctx, "ws"+strings.TrimPrefix(url, "http")+path, ws.Options{
					Subprotocols: protocols, Header: http.Header{"Origin": {"http://page.example"}}})
				if (err == nil) != ok {
					t.Errorf("%s %v: %v", path, protocols, err)
				}
				if err == nil {
					c.CloseNow()
				}
			}
		}
		return nil
	})
}

// TestCallsTrace: a call continues its own trace, or that of the handshake.
func TestCallsTrace(t *testing.T) {
	const own, shaken = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-11111111111111111111111111111111-b7ad6b7169203331-01"
	callsPlane(t, gateway.Route{Subject: "work"}, relay.CallerOptions{}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		return []byte(r.Trace.String()[:35] + " " + r.Trace.State), nil
	}, func(ctx context.Context, t *testing.T, url string, h *gateway.Handler, w *relay.Worker) error {
		c, err := ws.Dial(ctx, "ws"+strings.TrimPrefix(url, "http"), ws.Options{
			Subprotocols: []string{callsProtocol}, Header: http.Header{"Traceparent": {shaken}}})
		if err != nil {
			return err
		}
		defer c.CloseNow()
		if _, err := frameFrom(ctx, c); err != nil {
			return err
		}
		if err := send(ctx, c, `{"type":"call","id":1,"traceparent":"`+own+`","tracestate":"a=b"}`); err != nil {
			return err
		}
		expect(ctx, t, c, `{"type":"item","id":1,"body":"`+own[:35]+` a=b"}`, `{"type":"end","id":1}`)
		if err := send(ctx, c, `{"type":"call","id":2}`); err != nil {
			return err
		}
		expect(ctx, t, c, `{"type":"item","id":2,"body":"`+shaken[:35]+` "}`, `{"type":"end","id":2}`)
		if err := send(ctx, c, `{"type":"call","id":3,"traceparent":"`+own+`","tracestate":"a=\nb"}`); err != nil {
			return err
		}
		expect(ctx, t, c, `{"type":"item","id":3,"body":"`+own[:35]+` "}`, `{"type":"end","id":3}`) // what no header can carry is left out
		return nil
	})
}

// TestCallsOfClientThatLeaves: its calls are cancelled.
func TestCallsOfClientThatLeaves(t *testing.T) {
	callsPlane(t, gateway.Route{Subject: "work", Timeout: time.Minute}, relay.CallerOptions{}, work(nil), func(ctx context.Context, t *testing.T, url string, h *gateway.Handler, w *relay.Worker) error {
		c, err := dialCalls(ctx, url)
		if err != nil {
			return err
		}
		for id := range 10 {
			if err := send(ctx, c, fmt.Sprintf(`{"type":"call","id":%d,"body":"wait"}`, id+1)); err != nil {
				return err
			}
		}
		if err := until(ctx, func() bool { return w.Stats().Running == 10 }); err != nil {
			return err
		}
		c.CloseNow()
		return until(ctx, func() bool { return w.Stats().Running == 0 && h.Stats().ClientGone == 10 })
	})
}

// TestCallsUnavailable: without a worker, calls fail, and the connection stays.
func TestCallsUnavailable(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	webPlane(t, bus, relay.CallerOptions{}, func(c *relay.Caller) http.Handler {
		return web.Inline(gateway.New(c, gateway.Route{Subject: "none", RetryAfter: 1500 * time.Millisecond}))
	}, func(ctx context.Context, url string) error {
		c, err := dialCalls(ctx, url)
		if err != nil {
			return err
		}
		defer c.CloseNow()
		for id := 1; id < 3; id++ {
			if err := send(ctx, c, fmt.Sprintf(`{"type":"call","id":%d}`, id)); err != nil {
				return err
			}
			expect(ctx, t, c, fmt.Sprintf(`{"type":"error","id":%d,"status":503,"reason":"unavailable","retryAfter":2}`, id))
		}
		return nil
	})
}
