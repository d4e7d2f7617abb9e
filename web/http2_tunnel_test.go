package web_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/web"
)

// tunnels returns a server that echoes on the stream of a CONNECT request, after its handler
// has returned.
func tunnels(h func(http.HandlerFunc) http.Handler) *web.Server {
	s := &web.Server{ExtendedConnect: true}
	s.Handler = h(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Path", r.URL.Path+" "+r.Host+" "+r.Header[":protocol"][0])
		w.WriteHeader(http.StatusOK)
		nc, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		go func() {
			defer nc.Close()
			io.Copy(nc, rw.Reader) // the client has its header, and may have sent something already
		}()
	})
	return plainHTTP2(s)
}

// TestHTTP2ExtendedConnect opens a tunnel on a stream, beside a request on another.
func TestHTTP2ExtendedConnect(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]func(http.HandlerFunc) http.Handler{
		"worker": func(h http.HandlerFunc) http.Handler { return h },
		"inline": func(h http.HandlerFunc) http.Handler { return web.Inline(h) },
	} {
		t.Run(name, func(t *testing.T) {
			p := dialPeer(t, serve(t, tunnels(h)))
			room := firstWindows(1)
			until := func(kind byte) frame {
				for {
					f := p.next()
					if room.received(f); f.kind == kind {
						return f
					}
				}
			}
			f := until(settingsFrame)
			announced := false
			for at := 0; at+6 <= len(f.payload); at += 6 {
				announced = announced || string(f.payload[at:at+6]) == "\x00\x08\x00\x00\x00\x01"
			}
			if !announced {
				t.Error("SETTINGS do not announce extended CONNECT")
			}
			p.send(headersFrame, endHeaders, 1, p.block(":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/a", ":authority", "b"))
			head := until(headersFrame)
			fields, err := p.dec.DecodeFull(head.payload)
			if err != nil || fields[0].Value != "200" || head.flags&endStream != 0 {
				t.Fatalf("got %v, %v", fields, err)
			}
			for _, field := range fields {
				if field.Name == "x-path" && field.Value != "/a b websocket" {
					t.Errorf("got %q", field.Value)
				}
			}
			for range 25 { // more than the window
				for !room.allow(16_000) {
					until(windowFrame)
				}
				p.send(dataFrame, 0, 1, make([]byte, 16_000))
				room.sent(16_000)
				for got := 0; got < 16_000; {
					f := until(dataFrame)
					got += len(f.payload)
				}
				p.send(windowFrame, 0, 0, number(16_000))
				p.send(windowFrame, 0, 1, number(16_000))
			}
			p.send(dataFrame, endStream, 1, []byte("last"))
			if f := p.until(dataFrame); string(f.payload) != "last" {
				t.Errorf("got %q", f.payload)
			}
			if f := p.until(dataFrame); f.flags&endStream == 0 {
				t.Errorf("got %q without an end", f.payload)
			}
		})
	}
}

// TestHTTP2TunnelEndsWithItsStream and a request that is not CONNECT cannot be hijacked.
func TestHTTP2TunnelEndsWithItsStream(t *testing.T) {
	t.Parallel()
	errs := make(chan error, 2)
	sv := serve(t, plainHTTP2(&web.Server{ExtendedConnect: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		nc, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			errs <- err
			return
		}
		nc.SetReadDeadline(time.Now().Add(20 * time.Second))
		_, err = nc.Read(make([]byte, 1))
		errs <- err
	})}))
	p := dialPeer(t, sv)
	p.send(headersFrame, endHeaders|endStream, 1, p.request("GET", "/"))
	if err := <-errs; err == nil {
		t.Error("a GET request was hijacked")
	}
	p.send(headersFrame, endHeaders, 3, p.block(":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/a", ":authority", "b"))
	for p.until(headersFrame).id != 3 {
	}
	p.send(resetFrame, 0, 3, number(uint32(http2.Cancel)))
	if err := <-errs; err != web.ErrClientGone {
		t.Errorf("got %v", err)
	}
}
