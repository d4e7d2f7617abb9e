package web_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
)

// TestHTTP2SmallWindows sends a large body to a client that allows little at a time.
func TestHTTP2SmallWindows(t *testing.T) {
	text := strings.Repeat("0123456789", 30_000)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/pieces" {
			for i := 0; i < len(text); i += 1000 {
				io.WriteString(w, text[i:i+1000])
			}
			return
		}
		io.WriteString(w, text)
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, plainHTTP2(s))
			p := dialPeer(t, sv, 4, 10) // SETTINGS_INITIAL_WINDOW_SIZE
			p.send(headersFrame, endStream|endHeaders, 1, p.request("GET", "/whole"))
			p.send(headersFrame, endStream|endHeaders, 3, p.request("GET", "/pieces"))
			got := map[uint32]string{}
			for over := 0; over < 2; {
				f := p.next()
				if f.kind == resetFrame || f.kind == goAwayFrame {
					t.Fatalf("got frame %d with %v", f.kind, f.code())
				}
				if f.kind != dataFrame {
					continue
				}
				got[f.id] += string(f.payload)
				if f.flags&endStream != 0 {
					over++
				} else if n := len(f.payload); n > 0 {
					p.send(windowFrame, 0, f.id, number(uint32(n)+999))
					p.send(windowFrame, 0, 0, number(uint32(n)))
				}
			}
			if got[1] != text || got[3] != text {
				t.Errorf("got %d and %d bytes", len(got[1]), len(got[3]))
			}
		})
	}
}

// TestHTTP2TrailersWaitForTheWindow: trailers are sent after a body that waits, and other
// responses meanwhile do not change them.
func TestHTTP2TrailersWaitForTheWindow(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "body of "+r.URL.Path)
		w.Header().Set(http.TrailerPrefix+"Of", r.URL.Path)
	}) {
		t.Run(name, func(t *testing.T) {
			p := dialPeer(t, serve(t, plainHTTP2(s)), 4, 0) // SETTINGS_INITIAL_WINDOW_SIZE
			paths := map[uint32]string{1: "/a", 3: "/b", 5: "/c"}
			for _, id := range []uint32{1, 3, 5} {
				p.send(headersFrame, endStream|endHeaders, id, p.request("GET", paths[id]))
				if _, err := p.dec.DecodeFull(p.until(headersFrame).payload); err != nil {
					t.Fatal(err)
				}
			}
			for _, id := range []uint32{1, 3, 5} {
				p.send(windowFrame, 0, id, number(100))
				if trailers, body := p.response(id); trailers != "of: "+paths[id]+"\n" || body != "body of "+paths[id] {
					t.Errorf("%s: got %q and %q", paths[id], body, trailers)
				}
			}
		})
	}
}

// TestHTTP2ParallelUploads: a stream that closes with bytes that were not consumed returns them
// to the connection, with a frame of its own.
func TestHTTP2ParallelUploads(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, plainHTTP2(s))
			c := clientHTTP2(t)
			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() {
					res, err := c.Post(url(sv, "/"), "text/plain", strings.NewReader(large))
					if err != nil {
						t.Error(err)
						return
					}
					if body, err := io.ReadAll(res.Body); string(body) != "1048576 <nil>" {
						t.Errorf("got %q, %v", body, err)
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestHTTP2UploadIsBounded sends more than the windows allow to a handler that does not read.
func TestHTTP2UploadIsBounded(t *testing.T) {
	release := make(chan struct{})
	s := &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-release
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	})}
	sv := serve(t, plainHTTP2(s))
	p := dialPeer(t, sv)
	p.send(headersFrame, endHeaders, 1, p.request("POST", "/"))
	const window = 256 << 10
	piece := make([]byte, 16<<10)
	for range window / len(piece) {
		p.send(dataFrame, 0, 1, piece)
	}
	p.send(pingFrame, 0, 0, make([]byte, 8))
	for {
		f := p.next()
		if f.kind == windowFrame && f.id != 0 {
			t.Fatal("the window grows before anything is read")
		}
		if f.kind == pingFrame {
			break
		}
	}
	close(release)
	if f := p.until(windowFrame); len(f.payload) != 4 {
		t.Errorf("got %v", f)
	}
	p.send(dataFrame, endStream, 1, piece)
	if _, body := p.response(1); body != fmt.Sprint(window+len(piece), "<nil>") && body != fmt.Sprintf("%d %v", window+len(piece), nil) {
		t.Errorf("got %q", body)
	}
}

// TestHTTP2CancelledWriteKeepsItsBytes: what a write could not send before its wait was cancelled
// is sent later, as it was, although the handler uses its memory again.
func TestHTTP2CancelledWriteKeepsItsBytes(t *testing.T) {
	reused := make(chan struct{})
	s := &web.Server{Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := bytes.Repeat([]byte("a"), 100_000)
		_, _ = spindle.MoveOnAfter(r.Context(), time.Millisecond, func(context.Context) error {
			_, err := w.Write(p)
			return err
		})
		copy(p, bytes.Repeat([]byte("b"), len(p)))
		close(reused)
	}))}
	p := dialPeer(t, serve(t, plainHTTP2(s)), 4, 10) // SETTINGS_INITIAL_WINDOW_SIZE
	p.send(headersFrame, endStream|endHeaders, 1, p.request("GET", "/"))
	<-reused
	p.send(windowFrame, 0, 1, number(200_000))
	p.send(windowFrame, 0, 0, number(200_000))
	if _, body := p.response(1); body != strings.Repeat("a", 100_000) {
		t.Errorf("got %d bytes, %d of them as they were written", len(body), strings.Count(body, "a"))
	}
}

// TestHTTP2WindowIsReturned sends more than windows hold, most of it padding, to handlers that read their body, close it, or
// leave it.
func TestHTTP2WindowIsReturned(t *testing.T) {
	for _, c := range []struct {
		name            string
		streams, pieces int
		use             func(io.ReadCloser)
	}{
		{"read", 1, 8000, func(b io.ReadCloser) { io.Copy(io.Discard, b) }},
		{"closed", 80, 100, func(b io.ReadCloser) { b.Close() }},
		{"left", 80, 100, func(io.ReadCloser) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := dialPeer(t, serve(t, plainHTTP2(&web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c.use(r.Body)
				io.WriteString(w, "ok")
			})})))
			const padding, padded = 255, 8
			piece := make([]byte, 1+100+padding)
			piece[0] = padding
			conn := firstWindows(0).conn
			for i := range c.streams {
				id, ended := uint32(2*i+1), false
				room := firstWindows(id)
				room.conn = conn
				read := func() {
					f := p.next()
					room.received(f)
					ended = ended || f.kind == dataFrame && f.id == id && f.flags&endStream != 0
				}
				p.send(headersFrame, endHeaders, id, p.request("POST", "/"))
				for i := range c.pieces {
					for !room.allow(len(piece)) {
						read()
					}
					room.sent(len(piece))
					flags := byte(padded)
					if i == c.pieces-1 {
						flags |= endStream
					}
					p.send(dataFrame, flags, id, piece)
				}
				for !ended {
					read()
				}
				conn = room.conn
			}
		})
	}
}
