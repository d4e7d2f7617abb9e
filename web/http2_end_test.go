package web_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/spindleloop/spindle/web"
)

func TestHTTP2PanicResetsTheStreamOnly(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			panic("on purpose")
		case "/late":
			io.WriteString(w, "begun")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/short":
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "short")
		default:
			io.WriteString(w, "ok")
		}
	}) {
		t.Run(name, func(t *testing.T) {
			s.ErrorLog = discard()
			sv := serve(t, plainHTTP2(s))
			p := dialPeer(t, sv)
			for i, path := range []string{"/panic", "/late", "/short"} {
				id := uint32(2*i + 1)
				p.send(headersFrame, endStream|endHeaders, id, p.request("GET", path))
				if f := p.until(resetFrame); f.id != id {
					t.Errorf("got a reset of %d", f.id)
				}
			}
			p.send(headersFrame, endStream|endHeaders, 7, p.request("GET", "/"))
			for {
				if f := p.next(); f.id == 7 && f.kind == dataFrame {
					if string(f.payload) != "ok" {
						t.Errorf("got %q", f.payload)
					}
					break
				}
			}
		})
	}
}

// TestHTTP2ResetEndsTheRequest ends the context and the body of a request.
func TestHTTP2ResetEndsTheRequest(t *testing.T) {
	type end struct{ read, cause error }
	ends := make(chan end, 8)
	started := make(chan struct{}, 8)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		started <- struct{}{}
		_, err := io.ReadAll(r.Body)
		ends <- end{err, context.Cause(r.Context())}
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, plainHTTP2(s))
			p := dialPeer(t, sv)
			p.send(headersFrame, endHeaders, 1, p.request("POST", "/"))
			<-started
			p.send(resetFrame, 0, 1, number(8))
			if got := <-ends; got.read != web.ErrClientGone {
				t.Errorf("got %v", got)
			}
			p.send(headersFrame, endHeaders, 3, p.request("POST", "/"))
			<-started
			p.nc.Close()
			if got := <-ends; got.read != web.ErrClientGone {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestHTTP2DrainLosesNoRequest drains while clients send requests. Every request that a
// client does not know to be refused is answered.
func TestHTTP2DrainLosesNoRequest(t *testing.T) {
	s := &web.Server{Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }))}
	sv := serve(t, plainHTTP2(s))
	p := dialPeer(t, sv)
	p.send(headersFrame, endStream|endHeaders, 1, p.request("GET", "/"))
	p.response(1)
	drained := make(chan struct{})
	sv.Drain(func() { close(drained) })
	f := p.until(goAwayFrame)
	if last, code := f.goAway(); last != 1<<31-1 || code != 0 {
		t.Fatalf("got %d, %v", last, code)
	}
	ping := p.until(pingFrame)
	// This request was sent before the client has read the GOAWAY.
	p.send(headersFrame, endStream|endHeaders, 3, p.request("GET", "/"))
	if _, body := p.response(3); body != "ok" {
		t.Errorf("got %q", body)
	}
	p.send(pingFrame, ack, 0, ping.payload)
	if last, code := p.until(goAwayFrame).goAway(); last != 3 || code != 0 {
		t.Errorf("got %d, %v", last, code)
	}
	if f, err := p.read(); err != io.EOF {
		t.Errorf("got %v, %v", f, err)
	}
	p.nc.Close()
	<-drained
}

// TestHTTP2DrainWaitsForStreams answers the requests under way.
func TestHTTP2DrainWaitsForStreams(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	s := &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(started)
		<-release
		io.WriteString(w, "late")
	})}
	sv := serve(t, plainHTTP2(s))
	var wg sync.WaitGroup
	wg.Go(func() {
		res, err := clientHTTP2(t).Get(url(sv, "/"))
		if err != nil {
			t.Error(err)
			return
		}
		if body, _ := io.ReadAll(res.Body); string(body) != "late" {
			t.Errorf("got %q", body)
		}
	})
	<-started
	drained := make(chan struct{})
	sv.Drain(func() { close(drained) })
	close(release)
	wg.Wait()
	<-drained
}

func TestHTTP2RefusesWhatItCannotServe(t *testing.T) {
	refused := make(chan int, 10)
	s := &web.Server{
		MaxHeaderBytes: 4000, MaxRequestLineBytes: 1000, MaxBodyBytes: 5000,
		Refused: func(r web.Refusal) { refused <- r.Status },
		Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			fmt.Fprint(w, err)
		})),
	}
	sv := serve(t, plainHTTP2(s))
	p := dialPeer(t, sv)
	p.send(headersFrame, endStream|endHeaders, 1, p.request("GET", "/", "x-large", strings.Repeat("x", 9000)))
	if head, _ := p.response(1); !strings.Contains(head, ":status: 431") {
		t.Errorf("got %q", head)
	}
	p.send(headersFrame, endStream|endHeaders, 3, p.request("GET", "/"+strings.Repeat("x", 1100)))
	if head, _ := p.response(3); !strings.Contains(head, ":status: 414") {
		t.Errorf("got %q", head)
	}
	p.send(headersFrame, endHeaders, 5, p.request("POST", "/", "content-length", "6000"))
	if head, _ := p.response(5); !strings.Contains(head, ":status: 413") {
		t.Errorf("got %q", head)
	}
	p.send(headersFrame, endHeaders, 7, p.request("POST", "/"))
	p.send(dataFrame, endStream, 7, make([]byte, 6000))
	if _, body := p.response(7); body != "http: request body too large" {
		t.Errorf("got %q", body)
	}
	p.send(headersFrame, endStream|endHeaders, 9, p.request("GET", "/%zz"))
	if head, _ := p.response(9); !strings.Contains(head, ":status: 400") {
		t.Errorf("got %q", head)
	}
	for _, want := range []int{431, 414, 413, 400} {
		if got := <-refused; got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
}
