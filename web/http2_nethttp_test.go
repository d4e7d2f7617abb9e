package web_test

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// http2Difference has the handlers that answer otherwise over HTTP/2 than with net/http, and
// why.
var http2Difference = map[string]string{
	"request":               "a request without a body has the constant one of package http, as with HTTP/1.1; there it has another",
	"body to 304":           "no Content-Length, as with HTTP/1.1; there it is sent, and the client waits for the body",
	"body read after Close": "the error is http.ErrBodyReadAfterClose, as with HTTP/1.1",
}

// http2Requests are sent to each of the handlers.
var http2Requests = []func(url string) *http.Request{
	func(url string) *http.Request { return asked("GET", url+"/", nil) },
	func(url string) *http.Request { return asked("HEAD", url+"/", nil) },
	func(url string) *http.Request {
		return asked("GET", url+"/a%20b/c%2Fd;x?q=1&r=%zz&q=2", nil, "X-Y", "1", "Cookie", "a=b; c=d")
	},
	func(url string) *http.Request { return asked("GET", url+"/?", nil) },
	func(url string) *http.Request {
		return asked("POST", url+"/", strings.NewReader("q=1&r=2"), "Content-Type", "application/x-www-form-urlencoded")
	},
	func(url string) *http.Request {
		r := asked("POST", url+"/", io.MultiReader(strings.NewReader("q=1")))
		r.Trailer = http.Header{"X-A": {"1"}}
		return r
	},
	func(url string) *http.Request { return asked("GET", url+"/", nil, "Range", "bytes=5-10") },
	func(url string) *http.Request { return asked("BREW", url+"/", nil) },
}

func asked(method, url string, body io.Reader, fields ...string) *http.Request {
	r, err := http.NewRequest(method, url, body)
	if err != nil {
		panic(err)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	r.Host = "a.example"
	return r
}

// http2Answer returns what a server answers.
func http2Answer(c *http.Client, r *http.Request) string {
	res, err := c.Do(r)
	if err != nil {
		return "an error" // its text has addresses and numbers of streams
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	res.Header.Del("Date")
	return fmt.Sprintf("%s %d %d %v %v %q %v", res.Proto, res.StatusCode, res.ContentLength, res.Header, res.Trailer, body, err != nil)
}

// TestHTTP2SameAsNetHTTP compares every kind of handler with what net/http's server makes of it.
func TestHTTP2SameAsNetHTTP(t *testing.T) {
	t.Parallel()
	var at atomic.Int64
	h := func(w http.ResponseWriter, r *http.Request) { same[at.Load()].handler(w, r) }
	theirs := httptest.NewUnstartedServer(http.HandlerFunc(h))
	theirs.Config.ErrorLog = log.New(io.Discard, "", 0)
	theirs.Config.Protocols = new(http.Protocols)
	theirs.Config.Protocols.SetUnencryptedHTTP2(true)
	theirs.Start()
	defer theirs.Close()
	ours := map[string]string{}
	for name, s := range kinds(h) {
		if name == "mux" || name == "middleware" { // a mux redirects and cleans paths
			continue
		}
		s.ErrorLog = slog.New(slog.DiscardHandler)
		ours[name] = "http://" + serve(t, plainHTTP2(s)).Addr().String()
	}
	c := clientHTTP2(t)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for i, tt := range same {
		if testing.Short() && i%3 > 0 {
			continue
		}
		if _, differs := http2Difference[tt.name]; differs {
			continue
		}
		at.Store(int64(i))
		for k, request := range http2Requests {
			want := http2Answer(c, request(theirs.URL))
			for name, url := range ours {
				if got := http2Answer(c, request(url)); got != want {
					t.Errorf("%s, %s, request %d:\n got %.300s\nwant %.300s", tt.name, name, k, got, want)
				}
			}
		}
	}
}
