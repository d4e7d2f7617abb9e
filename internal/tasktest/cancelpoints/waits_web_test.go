package cancelpoints_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// serving prepares a server with an inline handler.
func serving(h http.HandlerFunc, call func(ctx context.Context, sv *web.Service) error) prepareFunc {
	return func(ctx context.Context, _ *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		sv, err := (&web.Server{Handler: web.Inline(h)}).Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		after(func() {
			sv.Close()
			_ = spindle.Shield(ctx, sv.Shutdown)
		})
		return func(ctx context.Context) error { return call(ctx, sv) }, nil
	}
}

// unanswered answers nothing until it is cancelled.
func unanswered(_ http.ResponseWriter, r *http.Request) { spindle.Sleep(r.Context(), time.Hour) }

// begun answers with the beginning of a body.
func begun(w http.ResponseWriter, r *http.Request) {
	w.Write([]byte("x"))
	w.(http.Flusher).Flush()
	unanswered(w, r)
}

// get makes a request and reads its body.
func get(timeout time.Duration, method string, body func() io.Reader) func(ctx context.Context, sv *web.Service) error {
	return func(ctx context.Context, sv *web.Service) error {
		req, err := http.NewRequestWithContext(ctx, method, "http://"+sv.Addr().String(), body())
		if err != nil {
			return err
		}
		res, err := (&http.Client{Transport: &web.Transport{}, Timeout: timeout}).Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		_, err = io.ReadAll(res.Body)
		return err
	}
}

func noBody() io.Reader { return nil }

// endless is a body without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// bodyOf makes a request outside of the scope, and reads its body inside.
func bodyOf(timeout time.Duration) prepareFunc {
	return func(ctx context.Context, n *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		var address string
		call, err := serving(begun, func(ctx context.Context, sv *web.Service) error {
			address = sv.Addr().String()
			return nil
		})(ctx, n, after)
		if err == nil {
			err = call(ctx)
		}
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, "GET", "http://"+address, nil)
		if err != nil {
			return nil, err
		}
		res, err := (&http.Client{Transport: &web.Transport{}, Timeout: timeout}).Do(req)
		if err != nil {
			return nil, err
		}
		after(func() { res.Body.Close() })
		return func(context.Context) error {
			_, err := io.ReadAll(res.Body)
			return err
		}, nil
	}
}

// sockets prepares a WebSocket with a peer that does nothing.
func sockets(call func(ctx context.Context, c *ws.Conn) error) prepareFunc {
	return func(ctx context.Context, n *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		var client *ws.Conn
		dial, err := serving(func(w http.ResponseWriter, r *http.Request) {
			if c, err := ws.Accept(w, r, ws.Options{}); err == nil {
				defer c.CloseNow()
				spindle.Sleep(r.Context(), time.Hour)
			}
		}, func(ctx context.Context, sv *web.Service) (err error) {
			client, err = ws.Dial(ctx, "ws://"+sv.Addr().String(), ws.Options{})
			return err
		})(ctx, n, after)
		if err == nil {
			err = dial(ctx)
		}
		if err != nil {
			return nil, err
		}
		after(func() { client.CloseNow() })
		return func(ctx context.Context) error { return call(ctx, client) }, nil
	}
}

// accepted prepares the WebSocket of a server, in an inline handler.
func accepted(call func(ctx context.Context, c *ws.Conn) error) prepareFunc {
	return func(ctx context.Context, n *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		server := spindle.NewFuture[*ws.Conn](ctx)
		var client *ws.Conn
		dial, err := serving(func(w http.ResponseWriter, r *http.Request) {
			c, err := ws.Accept(w, r, ws.Options{})
			if err != nil {
				server.Reject(err)
				return
			}
			server.Resolve(c) // which uses it
		}, func(ctx context.Context, sv *web.Service) (err error) {
			client, err = ws.Dial(ctx, "ws://"+sv.Addr().String(), ws.Options{})
			return err
		})(ctx, n, after)
		if err == nil {
			err = dial(ctx)
		}
		if err != nil {
			return nil, err
		}
		after(func() { client.CloseNow() })
		c, err := server.Await(ctx)
		if err != nil {
			return nil, err
		}
		after(func() { c.CloseNow() })
		return func(ctx context.Context) error { return call(ctx, c) }, nil
	}
}

func readMessage(ctx context.Context, c *ws.Conn) error { _, _, err := c.Read(ctx); return err }

func readChunks(ctx context.Context, c *ws.Conn) error { _, _, err := c.Reader(ctx); return err }

func writeMessage(ctx context.Context, c *ws.Conn) error { return c.Write(ctx, ws.Binary, huge) }

func writeChunks(ctx context.Context, c *ws.Conn) error {
	w, err := c.Writer(ctx, ws.Binary)
	if err != nil {
		return err
	}
	defer w.Close()
	return writeHuge(w)
}

// webWaits are the waits of packages web and ws.
var webWaits = []wait{
	{name: "web.Transport.RoundTrip", prepare: serving(unanswered, get(0, "GET", noBody))},
	{name: "web.Transport.RoundTrip, time-out of the client", prepare: serving(unanswered, get(time.Hour, "GET", noBody))},
	{name: "web.Transport.RoundTrip, body", prepare: serving(begun, get(0, "GET", noBody))},
	{name: "web.Transport.RoundTrip, body, time-out of the client", prepare: serving(begun, get(time.Hour, "GET", noBody))},
	{name: "web.Transport.RoundTrip, body, request outside", prepare: bodyOf(0)},
	{name: "web.Transport.RoundTrip, body, request outside, time-out of the client", prepare: bodyOf(time.Hour)},
	{name: "web.Transport.RoundTrip, upload", prepare: serving(unanswered, get(0, "POST", func() io.Reader { return endless{} }))},
	{name: "web.Transport.RoundTrip, upload, time-out of the client", prepare: serving(unanswered, get(time.Hour, "POST", func() io.Reader { return endless{} }))},
	{name: "web.Server.ListenAndServe", ends: true, prepare: ready(func(ctx context.Context) error {
		return (&web.Server{Handler: web.Inline(http.HandlerFunc(unanswered))}).ListenAndServe(ctx, "127.0.0.1:0")
	})},
	{name: "web.Server.Serve", ends: true, prepare: ready(func(ctx context.Context) error {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		return (&web.Server{Handler: web.Inline(http.HandlerFunc(unanswered))}).Serve(ctx, ln)
	})},
	{name: "web.Service.Shutdown web.Server.Shutdown", prepare: busy},
	{name: "ws.Dial", prepare: listening(func(ctx context.Context, ln *stream.Listener) error {
		_, err := ws.Dial(ctx, "ws://"+ln.Addr().String(), ws.Options{})
		return err
	})},
	{name: "ws.Conn.Read", prepare: sockets(readMessage)},
	{name: "ws.Conn.Read, of a server", prepare: accepted(readMessage)},
	{name: "ws.Conn.Reader", prepare: sockets(readChunks)},
	{name: "ws.Conn.Reader, of a server", prepare: accepted(readChunks)},
	{name: "ws.Conn.Write", prepare: sockets(writeMessage)},
	{name: "ws.Conn.Write, of a server", prepare: accepted(writeMessage)},
	{name: "ws.Conn.Writer", prepare: sockets(writeChunks)},
	{name: "ws.Conn.Writer, of a server", prepare: accepted(writeChunks)},
}

// busy prepares a server with a request that does not end.
func busy(ctx context.Context, n *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
	handling := spindle.NewFuture[bool](ctx)
	var service *web.Service
	call, err := serving(func(w http.ResponseWriter, r *http.Request) {
		handling.Resolve(true)
		unanswered(w, r)
	}, func(_ context.Context, sv *web.Service) error {
		service = sv
		n.Go(func(ctx context.Context) error {
			if err := get(0, "GET", noBody)(ctx, sv); !errors.Is(err, io.EOF) {
				return err
			}
			return nil
		})
		return nil
	})(ctx, n, after)
	if err == nil {
		err = call(ctx)
	}
	if err == nil {
		_, err = handling.Await(ctx)
	}
	return func(ctx context.Context) error { return service.Shutdown(ctx) }, err
}
