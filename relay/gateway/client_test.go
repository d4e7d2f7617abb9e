package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// TestWriterWithoutFlush: a stream is sent whole, if not at once, when something in front of
// the handler has hidden the Flush of the ResponseWriter.
func TestWriterWithoutFlush(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(t, bus, "work", relay.ServeOptions{}, work(nil))
	c := newCaller(t, t.Context(), bus, relay.CallerOptions{Timeout: time.Minute})
	h := gateway.New(c, gateway.Route{Subject: "work"})
	r := httptest.NewRequest("POST", "/", strings.NewReader("items"))
	r.Header.Set("Accept", "text/event-stream")
	w := httptest.NewRecorder()
	h.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	if got := w.Body.String(); got != "data: one\n\ndata: two\ndata: lines\n\ndata: three\n\n" {
		t.Errorf("%q", got)
	}
	if s := h.Stats(); s != (gateway.Stats{OK: 1}) {
		t.Errorf("%+v", s)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// cutWriter hijacks a connection that can be read, but not written to once cut is set.
type cutWriter struct {
	http.ResponseWriter
	cut *bool
}

func (w cutWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	return cutConn{c, w.cut}, rw, err
}

type cutConn struct {
	net.Conn
	cut *bool
}

func (c cutConn) Write(b []byte) (int, error) {
	if *c.cut {
		return 0, errors.New("connection reset by peer")
	}
	return c.Conn.Write(b)
}

// TestSocketThatCannotBeWritten: its client has left. The worker has not failed, and there is
// nothing to log.
func TestSocketThatCannotBeWritten(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(t, bus, "work", relay.ServeOptions{}, work(nil))
	var h *gateway.Handler
	var log strings.Builder // written on the loop, as all below
	var cut, ended bool
	webPlane(t, bus, relay.CallerOptions{}, func(c *relay.Caller) http.Handler {
		h = gateway.New(c, gateway.Route{Subject: "work", Timeout: time.Minute, ErrorLog: slog.New(slog.NewTextHandler(&log, nil))})
		return web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { ended = true }()
			h.ServeHTTP(cutWriter{w, &cut}, r)
		}))
	}, func(ctx context.Context, url string) error {
		socket, err := ws.Dial(ctx, "ws"+strings.TrimPrefix(url, "http"), ws.Options{})
		if err != nil {
			return err
		}
		defer socket.CloseNow()
		cut = true
		if err := socket.Write(ctx, ws.Text, []byte("items")); err != nil {
			return err
		}
		if _, _, err := socket.Read(ctx); err == nil {
			t.Error("the client has got an item")
		}
		for !ended {
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if s := h.Stats(); s != (gateway.Stats{ClientGone: 1}) || log.Len() > 0 {
		t.Errorf("%+v, %s", s, log.String())
	}
}

// failingBody is the body of a request that cannot be read.
type failingBody struct{ err error }

func (b failingBody) Read([]byte) (int, error) { return 0, b.err }

// TestBodyThatCannotBeRead: a client that has left gets no answer and is counted as such, even
// if the context of its request has not ended yet.
func TestBodyThatCannotBeRead(t *testing.T) {
	c := newCaller(t, t.Context(), relay.NewLocal(relay.LocalOptions{}), relay.CallerOptions{})
	for name, test := range map[string]struct {
		err    error
		status int // 0 if nothing is answered
		stats  gateway.Stats
	}{
		"ends early":  {io.ErrUnexpectedEOF, 0, gateway.Stats{ClientGone: 1}},
		"lost":        {web.ErrClientGone, 0, gateway.Stats{ClientGone: 1}},
		"too slow":    {os.ErrDeadlineExceeded, http.StatusRequestTimeout, gateway.Stats{Refused: 1}},
		"not chunked": {errors.New("invalid chunk"), http.StatusBadRequest, gateway.Stats{Refused: 1}},
	} {
		h := gateway.New(c, gateway.Route{Subject: "work"})
		w := &httptest.ResponseRecorder{Body: new(bytes.Buffer)}
		h.ServeHTTP(w, httptest.NewRequest("POST", "/", failingBody{test.err}))
		if s := h.Stats(); w.Code != test.status || s != test.stats {
			t.Errorf("%s: status %d, %+v", name, w.Code, s)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestClientLeavesWithinItsBody: it is counted, however it leaves.
func TestClientLeavesWithinItsBody(t *testing.T) {
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"in tasks":      web.Inline,
		"on goroutines": func(h http.Handler) http.Handler { return h },
	} {
		for how, leave := range map[string]func(*net.TCPConn) error{
			"closed":      (*net.TCPConn).Close,
			"reset":       func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
			"half-closed": (*net.TCPConn).CloseWrite,
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				var h *gateway.Handler
				var begun atomic.Bool
				webPlane(t, relay.NewLocal(relay.LocalOptions{}), relay.CallerOptions{}, func(c *relay.Caller) http.Handler {
					h = gateway.New(c, gateway.Route{Subject: "work"})
					return wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						begun.Store(true)
						h.ServeHTTP(w, r)
					}))
				}, func(ctx context.Context, url string) error {
					nc, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
					if err != nil {
						return err
					}
					defer nc.Close()
					if _, err := io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"); err != nil {
						return err
					}
					for !begun.Load() {
						if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
							return err
						}
					}
					err = leave(nc.(*net.TCPConn))
					for err == nil && h.Stats() == (gateway.Stats{}) {
						err = spindle.Sleep(ctx, time.Millisecond)
					}
					if s := h.Stats(); s != (gateway.Stats{ClientGone: 1}) {
						t.Errorf("%+v", s)
					}
					return err
				})
			})
		}
	}
}

// TestSocketMessagesAreKept: a message is read while the call of the one before runs, and
// changes nothing in its request.
func TestSocketMessagesAreKept(t *testing.T) {
	release := make(chan struct{})
	bus := relay.NewLocal(relay.LocalOptions{})
	w, _ := serve(t, bus, "work", relay.ServeOptions{}, work(release))
	webPlane(t, bus, relay.CallerOptions{}, func(c *relay.Caller) http.Handler {
		return web.Inline(gateway.New(c, gateway.Route{Subject: "work", Timeout: time.Minute}))
	}, func(ctx context.Context, url string) error {
		c, err := stream.Dial(ctx, "tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			return err
		}
		defer c.Close()
		const text, ping, pong, final = 1, 9, 10, 0x80
		send := func(opcode byte, payload string) error { // the mask is zero
			_, err := c.Write(append([]byte{final | opcode, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...))
			return err
		}
		from := bufio.NewReader(c)
		expect := func(opcode byte, payload string) error {
			got := make([]byte, 2+len(payload))
			_, err := io.ReadFull(from, got)
			if want := append([]byte{final | opcode, byte(len(payload))}, payload...); !bytes.Equal(got, want) {
				t.Errorf("%q; want %q", got, want)
			}
			return err
		}
		_, err = io.WriteString(c, "GET /work HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		if err != nil {
			return err
		}
		if res, err := http.ReadResponse(from, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			return fmt.Errorf("%+v, %w", res, err)
		}
		err = send(text, "block")
		for err == nil && w.Stats().Running == 0 {
			err = spindle.Sleep(ctx, time.Millisecond)
		}
		err = errors.Join(err, send(text, "other"), send(ping, ""), expect(pong, "")) // both have been read
		close(release)
		return errors.Join(err, expect(text, "block"), expect(text, "other"))
	})
}
