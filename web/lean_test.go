package web_test

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/spindleloop/spindle/web"
)

// TestLeanHandlerThatLeavesABodyItAskedFor checks that Handler gets the request after
// ReadBody was called for it, and that the next request is not affected.
func TestLeanHandlerThatLeavesABodyItAskedFor(t *testing.T) {
	sv := serve(t, &web.Server{
		Lean: func(c *web.LeanCtx) bool {
			if string(c.Path()) == "/plain" {
				c.WriteString("plain")
				return true
			}
			c.ReadBody(100, func(c *web.LeanCtx, body []byte) { c.WriteString("not asked any more") })
			return false
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }),
	})
	nc, br := dial(t, sv)
	io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"+
		"GET /plain HTTP/1.1\r\nHost: a\r\n\r\n")
	for _, want := range []string{"hello", "plain"} {
		if _, got := response(t, br, "GET"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestLeanHandlerThatLeavesALongBody checks that the response announces the close.
func TestLeanHandlerThatLeavesALongBody(t *testing.T) {
	sv := serve(t, &web.Server{Lean: func(c *web.LeanCtx) bool { return true }})
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n",
		"POST /" + chunkedHead,
	} {
		c := dialHalf(t, sv, nil)
		br := bufio.NewReader(c)
		io.WriteString(c, request)
		if res, _ := response(t, br, "POST"); !res.Close {
			t.Errorf("%q: the response does not announce the close", request)
		}
		if _, err := br.ReadByte(); err != io.EOF {
			t.Errorf("%q: %v", request, err)
		}
	}
}

func TestLeanHandlerAnswers(t *testing.T) {
	sv := serve(t, &web.Server{
		Lean: web.LeanRoutes(map[string]func(*web.LeanCtx){
			"/hello": func(c *web.LeanCtx) { c.WriteString("lean " + string(c.Query())) },
			"/echo": func(c *web.LeanCtx) {
				c.ReadBody(100, func(c *web.LeanCtx, body []byte) { c.Write(body) })
			},
		}),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "worker") }),
	})
	c := client(t)
	if _, body := get(t, c, url(sv, "/hello?you")); body != "lean you" {
		t.Errorf("got %q", body)
	}
	if _, body := get(t, c, url(sv, "/other")); body != "worker" {
		t.Errorf("got %q", body)
	}
	res, err := c.Post(url(sv, "/echo"), "text/plain", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); string(body) != "hello" {
		t.Errorf("got %q", body)
	}
}

// TestLeanPathOfEveryFormOfTarget checks that a filter in Lean sees the path that Handler
// would see, in whichever form the target is sent.
func TestLeanPathOfEveryFormOfTarget(t *testing.T) {
	sv := serve(t, &web.Server{Lean: func(c *web.LeanCtx) bool {
		c.WriteString(string(c.Path()) + " " + string(c.Query()) + " " + string(c.Host()))
		return true
	}})
	for _, c := range []struct{ line, want string }{
		{"GET /path?q", "/path q a"},
		{"GET http://b/path?q", "/path q b"},
		{"GET HTTPS://b:8/path/x", "/path/x  b:8"},
		{"GET http://b", "/  b"},
		{"GET http://b?q", "/ q b"},
		{"GET http://[::1]:80/p", "/p  [::1]:80"},
		{"GET //b/path", "//b/path  a"},
		{"OPTIONS *", "*  a"},
		{"CONNECT b:443", "  b:443"},
	} {
		if got := raw(t, sv, c.line+" HTTP/1.1\r\nHost: a\r\n\r\n", "GET"); got[0] != "200 "+c.want {
			t.Errorf("%s: got %q, want %q", c.line, got, c.want)
		}
	}
	if got := raw(t, sv, "GET http://b/p HTTP/1.0\r\n\r\n", "GET"); got[0] != "200 /p  b" {
		t.Errorf("without Host: %q", got)
	}
}

func TestLeanRoutesTakeAbsoluteTargets(t *testing.T) {
	sv := serve(t, &web.Server{
		Lean: web.LeanRoutes(map[string]func(*web.LeanCtx){"/admin": func(c *web.LeanCtx) { c.SetStatus(403) }}),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			t.Errorf("%s got through", r.RequestURI)
		}),
	})
	if got := raw(t, sv, "GET http://a/admin HTTP/1.1\r\nHost: a\r\n\r\n", "GET"); got[0] != "403 " {
		t.Errorf("got %q", got)
	}
}

// TestLeanHeaderIsFramedByTheServer checks that AddHeader with a length, a coding or
// Connection never changes where the response ends.
func TestLeanHeaderIsFramedByTheServer(t *testing.T) {
	sv := serve(t, &web.Server{Lean: func(c *web.LeanCtx) bool {
		for _, line := range strings.Split(string(c.Header("Add")), "|") {
			if name, value, ok := strings.Cut(line, "="); ok {
				c.AddHeader(name, value)
			}
		}
		c.WriteString("hello")
		return true
	}})
	for _, c := range []struct{ add, field, want string }{
		{"Content-Length=3", "Content-Length", "5"},
		{"content-length=3|CONTENT-LENGTH=4", "Content-Length", "5"},
		{"transfer-encoding=chunked", "Transfer-Encoding", ""},
		{"Transfer-Encoding=gzip, chunked", "Transfer-Encoding", ""},
		{"connection=upgrade|Connection=keep-alive", "Connection", ""},
		{"CONNECTION=x, Close", "Connection", "close"},
		{"Content-Type=a/b|content-type=c/d", "Content-Type", "c/d"},
		{"CONTENT-TYPE=a/b", "Content-Type", "a/b"},
		{"date=never", "Content-Length", "5"},
		{"X-A=1|X-A=2", "X-A", "1, 2"},
		{"", "Content-Type", "text/plain; charset=utf-8"},
	} {
		nc, _ := dial(t, sv)
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\nAdd: "+c.add+"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		all, err := io.ReadAll(nc)
		if err != nil {
			t.Fatal(err)
		}
		br := bufio.NewReader(strings.NewReader(string(all)))
		res, body := response(t, br, "GET")
		if body != "hello" {
			t.Errorf("%s: %q", c.add, all)
		}
		got := res.Header.Values(c.field)
		if c.field == "Connection" && res.Close || c.field == "Transfer-Encoding" && res.TransferEncoding != nil {
			got = []string{"close"}
		}
		if strings.Join(got, ", ") != c.want || len(res.Header.Values("Date")) != 1 {
			t.Errorf("%s: %v", c.add, res.Header)
		}
		if c.want != "close" {
			if _, body := response(t, br, "GET"); body != "hello" || br.Buffered() > 0 {
				t.Errorf("%s: the next one is %q in %q", c.add, body, all)
			}
		}
	}
}

// TestLeanHandlerThatPanics: the requests before are answered.
func TestLeanHandlerThatPanics(t *testing.T) {
	sv := serve(t, &web.Server{ErrorLog: slog.New(slog.DiscardHandler), Lean: func(c *web.LeanCtx) bool {
		if string(c.Path()) == "/panic" {
			panic("no")
		}
		c.WriteString("fine")
		return true
	}})
	nc, br := dial(t, sv)
	if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /panic HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(br); !strings.HasSuffix(string(all), "fine") || err != nil {
		t.Errorf("got %q, %v", all, err)
	}
}

// TestLeanLargeBodies echoes many bodies at the same time. Their buffers are used again, but
// not before they were sent.
func TestLeanLargeBodies(t *testing.T) {
	sv := serve(t, plainHTTP2(&web.Server{Lean: func(c *web.LeanCtx) bool {
		c.ReadBody(8<<20, func(c *web.LeanCtx, body []byte) { c.Write(body) })
		return true
	}}))
	small := &http.Transport{Protocols: h2c(), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}}
	defer small.CloseIdleConnections()
	for _, c := range []*http.Client{client(t), {Transport: small}} {
		var all sync.WaitGroup
		for i := range 24 {
			all.Go(func() {
				want := bytes.Repeat([]byte{byte(i)}, []int{50_000, 300_000, 1 << 20, 5 << 20}[i%4])
				res, err := c.Post(url(sv, "/"), "text/plain", bytes.NewReader(want))
				if err != nil {
					t.Error(err)
					return
				}
				defer res.Body.Close()
				if got, err := io.ReadAll(res.Body); !bytes.Equal(got, want) || err != nil {
					t.Errorf("%s: %d bytes of %d are wrong, or %v", res.Proto, len(got), len(want), err)
				}
			})
		}
		all.Wait()
	}
}

// TestLeanContentTypes: an answer has the Content-Type that its handler has set last, on connections of both
// protocols. One that cannot be sent does not stay.
func TestLeanContentTypes(t *testing.T) {
	s := plainHTTP2(&web.Server{ErrorLog: discard(), Lean: func(c *web.LeanCtx) bool {
		if q := string(c.Query()); q == "bad" {
			c.AddHeader("Content-Type", "a\nb")
		} else if q != "" {
			c.AddHeader("Content-Type", "text/none")
			c.AddHeader("Content-Type", q)
		}
		c.WriteString("x")
		return true
	}})
	sv := serve(t, s)
	for _, client := range []*http.Client{http.DefaultClient, clientHTTP2(t)} {
		for _, kind := range []string{"a/b", "a/b", "c/d", "", "bad", "c/d", "a/b"} {
			res, _ := get(t, client, url(sv, "/?"+kind))
			want, status := kind, http.StatusOK
			switch kind {
			case "":
				want = "text/plain; charset=utf-8"
			case "bad":
				want, status = "", http.StatusInternalServerError
			}
			if got := res.Header.Get("Content-Type"); res.StatusCode != status || got != want {
				t.Errorf("%s %q: got %v with %q", res.Proto, kind, res.StatusCode, got)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
