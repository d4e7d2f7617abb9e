package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
)

// tasks runs fn as a task, on a loop of its own.
func tasks(t testing.TB, fn func(ctx context.Context)) {
	t.Helper()
	if err := spindle.Run(t.Context(), func(ctx context.Context) error {
		fn(ctx)
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// both runs a test with a server of package net/http and one of this.
func both(t *testing.T, h http.HandlerFunc, test func(t *testing.T, base string)) {
	t.Run("net", func(t *testing.T) {
		s := httptest.NewServer(h)
		defer s.Close()
		test(t, s.URL)
	})
	t.Run("web", func(t *testing.T) { test(t, url(serve(t, &web.Server{Handler: h}), "")) })
}

// do makes a request with our client, and reads all.
func do(ctx context.Context, c *http.Client, method, url string, body io.Reader, header ...string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, "", err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	return res, string(got), err
}

// everything is a handler for what a client has to cope with.
func everything(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/plain":
		fmt.Fprintf(w, "%s %s", r.Method, r.URL.RawQuery)
	case "/long":
		w.Write(block(1 << 20))
	case "/chunks":
		w.Header().Set("Trailer", "X-Sum, X-Absent")
		for i := range 100 {
			fmt.Fprintf(w, "%d,", i)
			if i%10 == 0 {
				w.(http.Flusher).Flush()
			}
		}
		w.Header().Set("X-Sum", "4950")
		w.Header().Set(http.TrailerPrefix+"X-Late", "yes")
	case "/echo":
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %v %q %v %v", len(body), err, r.Header["Content-Type"], r.ContentLength, r.Trailer)
	case "/redirect":
		http.Redirect(w, r, "/plain?redirected", http.StatusFound)
	case "/nothing":
		w.WriteHeader(http.StatusNoContent)
	case "/same":
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusNotModified)
	case "/empty":
	case "/hints":
		w.Header().Set("Link", "</a>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprint(w, "hinted")
	case "/gzip":
		if r.Header.Get("Accept-Encoding") != "gzip" {
			fmt.Fprint(w, "not asked for")
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		zip.Write(bytes.Repeat([]byte("0123456789"), 10_000))
		zip.Close()
	case "/close":
		w.Header().Set("Connection", "close")
		fmt.Fprint(w, "bye")
	case "/agent":
		fmt.Fprintf(w, "%q %q %q", r.UserAgent(), r.Host, r.Header["X-A"])
	case "/late":
		fmt.Fprint(w, r.Header.Get("Cookie"))
	default:
		http.NotFound(w, r)
	}
}

// TestTransportMatchesNetHTTP: what our client makes of a response is what package net's
// does.
func TestTransportMatchesNetHTTP(t *testing.T) {
	both(t, everything, func(t *testing.T, base string) {
		compareTransports(t, base, &http.Transport{}, &web.Transport{})
	})
}

// compareTransports makes the same requests with both, to a server with the handler everything.
func compareTransports(t *testing.T, base string, theirs *http.Transport, ours *web.Transport) {
	nets := &http.Client{Transport: theirs}
	defer nets.CloseIdleConnections()
	tasks(t, func(ctx context.Context) {
		ours := &http.Client{Transport: ours}
		for _, step := range []struct {
			method, path string
			body         func() io.Reader
			header       []string
		}{
			{"GET", "/plain?a=b", nil, nil},
			{"HEAD", "/plain", nil, nil},
			{"HEAD", "/long", nil, nil},
			{"HEAD", "/chunks", nil, nil},
			{"GET", "/long", nil, nil},
			{"GET", "/chunks", nil, nil},
			{"POST", "/echo", func() io.Reader { return strings.NewReader("hello") }, []string{"Content-Type", "text/plain"}},
			{"POST", "/echo", func() io.Reader { return strings.NewReader("") }, nil},
			{"POST", "/echo", nil, nil},
			{"PUT", "/echo", func() io.Reader { return bytes.NewReader(block(3 << 20)) }, nil},
			{"POST", "/echo", func() io.Reader { return io.MultiReader(strings.NewReader("of unknown "), strings.NewReader("length")) }, nil},
			{"POST", "/echo", func() io.Reader { return strings.NewReader("hello") }, []string{"Expect", "100-continue"}},
			{"GET", "/redirect", nil, nil},
			{"GET", "/nothing", nil, nil},
			{"GET", "/same", nil, nil},
			{"GET", "/empty", nil, nil},
			{"GET", "/hints", nil, nil},
			{"GET", "/gzip", nil, nil},
			{"GET", "/gzip", nil, []string{"Accept-Encoding", "gzip"}},
			{"GET", "/gzip", nil, []string{"Accept-Encoding", "identity"}},
			{"GET", "/close", nil, nil},
			{"GET", "/agent", nil, []string{"User-Agent", "me", "X-A", "1", "X-A", "2"}},
			{"GET", "/agent", nil, []string{"User-Agent", ""}},
			{"DELETE", "/missing", nil, nil},
		} {
			if step.path == "/same" && theirs.Protocols != nil {
				continue // a 304 with Content-Length: over HTTP/2 net/http waits for its body
			}
			body := func() io.Reader {
				if step.body == nil {
					return nil
				}
				return step.body()
			}
			name := step.method + " " + step.path
			got, text, err := do(ctx, ours, step.method, base+step.path, body(), step.header...)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			type answer struct {
				res  *http.Response
				text string
				err  error
			}
			theirs, _ := spindle.Blocking(ctx, func() (a answer, _ error) {
				a.res, a.text, a.err = do(context.Background(), nets, step.method, base+step.path, body(), step.header...)
				return a, nil
			})
			if theirs.err != nil {
				t.Fatalf("%s with net: %v", name, theirs.err)
			}
			want := theirs.res
			if text != theirs.text {
				t.Errorf("%s: %.100q, with net %.100q", name, text, theirs.text)
			}
			got.Header.Del("Date")
			want.Header.Del("Date")
			if !reflect.DeepEqual(got.Header, want.Header) || !reflect.DeepEqual(got.Trailer, want.Trailer) {
				t.Errorf("%s: header %v and trailer %v,\nwith net %v and %v", name, got.Header, got.Trailer, want.Header, want.Trailer)
			}
			if got.Status != want.Status || got.StatusCode != want.StatusCode || got.ContentLength != want.ContentLength ||
				got.Proto != want.Proto || got.Close != want.Close || got.Uncompressed != want.Uncompressed ||
				!reflect.DeepEqual(got.TransferEncoding, want.TransferEncoding) || got.Request.URL.String() != want.Request.URL.String() {
				t.Errorf("%s: %+v,\nwith net %+v", name, got, want)
			}
		}
		ours.CloseIdleConnections()
	})
}

// counted counts the connections of a server of net/http.
func counted(t testing.TB, h http.HandlerFunc) (*httptest.Server, *atomic.Int32) {
	var n atomic.Int32
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			n.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s, &n
}

// TestTransportKeepsConnections: one is enough for requests that follow each other,
// whether bodies are read to their end, to their length, or closed with little left.
func TestTransportKeepsConnections(t *testing.T) {
	s, conns := counted(t, everything)
	tasks(t, func(ctx context.Context) {
		c := &http.Client{Transport: &web.Transport{}}
		for i, path := range []string{"/plain", "/chunks", "/nothing", "/echo", "/gzip", "/plain"} {
			req, err := http.NewRequestWithContext(ctx, "POST", s.URL+path, strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			switch i % 3 {
			case 0:
				io.ReadAll(res.Body)
			case 1:
				io.ReadFull(res.Body, make([]byte, max(1, res.ContentLength)))
			}
			res.Body.Close()
			idle(t, ctx, 1)
		}
		if n := conns.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// idle waits until n connections of clients are kept.
func idle(t testing.TB, ctx context.Context, n int) {
	t.Helper()
	for {
		kept := 0
		for _, task := range spindle.TreeOf(ctx) {
			if strings.HasPrefix(task.Name, "idle connection to") && task.State == "waiting" {
				kept++
			}
		}
		if kept == n {
			return
		}
		if err := spindle.Yield(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// block is n bytes in which none is lost or doubled unnoticed.
func block(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i % 251)
	}
	return p
}
