package web_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
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

// TestHTTP2DrainKeepsConnectionsInUse: with DrainIdle, a connection without a request is kept when
// the drain begins. The next request is answered, and after it the peer is told twice.
func TestHTTP2DrainKeepsConnectionsInUse(t *testing.T) {
	t.Parallel()
	all := kinds(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") })
	all["lean"] = &web.Server{Lean: func(c *web.LeanCtx) bool { c.WriteString("ok"); return true }}
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			s.DrainIdle = time.Minute
			sv := serve(t, plainHTTP2(s))
			p := dialPeer(t, sv)
			p.send(headersFrame, endStream|endHeaders, 1, p.request("GET", "/"))
			p.response(1)
			ended := make(chan error, 1)
			go func() { ended <- sv.Shutdown(context.Background()) }()
			waitUntilRefused(t, sv)
			p.send(pingFrame, 0, 0, make([]byte, 8))
			for f := p.next(); f.kind != pingFrame || f.flags != ack; f = p.next() {
				if f.kind == goAwayFrame {
					t.Fatal("the peer is told before its next request")
				}
			}
			p.send(headersFrame, endStream|endHeaders, 3, p.request("GET", "/"))
			body, lasts := p.farewell()
			if body != "ok" || !slices.Equal(lasts, []uint32{1<<31 - 1, 3}) {
				t.Errorf("got %q and GOAWAYs with the streams %d", body, lasts)
			}
			p.nc.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// farewell receives frames up to the end of the connection, and answers PINGs. It returns all data, and the
// last streams of GOAWAYs.
func (p *peer) farewell() (body string, lasts []uint32) {
	for {
		f, err := p.read()
		if err != nil {
			return body, lasts
		}
		switch f.kind {
		case dataFrame:
			body += string(f.payload)
		case goAwayFrame:
			last, _ := f.goAway()
			lasts = append(lasts, last)
		case pingFrame:
			p.send(pingFrame, ack, 0, f.payload)
		}
	}
}

// TestHTTP2DrainClosesUnusedConnections: DrainIdle begins with the drain, even for a connection
// that was idle for longer. A peer that does not answer the PING has a second more.
func TestHTTP2DrainClosesUnusedConnections(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		const keep = 5 * time.Second
		s := plainHTTP2(&web.Server{DrainIdle: keep, IdleTimeout: time.Hour, Lean: func(*web.LeanCtx) bool { return true }})
		sv, err := s.Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		c, err := stream.Dial(ctx, "tcp", sv.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		p := newPeer(t, c)
		c.SetDeadline(time.Time{})
		p.send(headersFrame, endStream|endHeaders, 1, p.request("GET", "/"))
		for {
			if f, err := p.read(); err != nil {
				return err
			} else if f.id == 1 && f.flags&endStream != 0 {
				break
			}
		}
		if err := spindle.Sleep(ctx, 10*keep); err != nil {
			return err
		}
		l := spindle.LoopOf(ctx)
		begun, at := l.Time(), []time.Duration{}
		sv.Drain(func() {})
		for {
			f, err := p.read()
			if err == nil && f.kind != goAwayFrame {
				continue
			}
			at = append(at, (l.Time() - begun).Round(100*time.Millisecond))
			if err != nil {
				break
			}
		}
		if want := []time.Duration{keep, keep + time.Second, keep + time.Second}; !slices.Equal(at, want) {
			return fmt.Errorf("GOAWAYs and the end after %v, want %v", at, want)
		}
		return nil
	})
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
