package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
)

// serve runs s on a new loop until the test ends, and then drains it.
func serve(t testing.TB, s *web.Server) *web.Service {
	t.Helper()
	sv, begin := bind(t, s)
	begin()
	return sv
}

// bind is serve for clients that connect, and may write, before the server accepts them:
// its time-outs count from there.
func bind(t testing.TB, s *web.Server) (sv *web.Service, begin func()) {
	t.Helper()
	return bindWith(t, s, loop.Options{Debug: true})
}

// bindWith is bind with options for the loop.
func bindWith(t testing.TB, s *web.Server, o loop.Options) (sv *web.Service, begin func()) {
	t.Helper()
	l, err := loop.New(o)
	if err != nil {
		t.Fatal(err)
	}
	sv, err = s.Listen(l, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := sv.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		l.Stop()
		if err := <-ended; err != nil {
			t.Errorf("loop: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return sv, func() { go func() { ended <- l.Run(context.Background()) }() }
}

// kinds returns servers that run h on a goroutine and in a task. Without -short there
// are also servers that find out in a mux, and behind middleware, where h runs.
func kinds(h http.HandlerFunc) map[string]*web.Server {
	all := map[string]*web.Server{"worker": {Handler: h}, "inline": {Handler: web.Inline(h)}}
	if !testing.Short() {
		mux := http.NewServeMux()
		mux.Handle("/", web.Inline(h))
		all["mux"] = &web.Server{Handler: mux}
		all["middleware"] = &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { mux.ServeHTTP(w, r) })}
	}
	return all
}

func url(sv *web.Service, path string) string { return "http://" + sv.Addr().String() + path }

// client returns a new client, which shares no connections with other tests.
func client(t testing.TB) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func get(t testing.TB, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	res, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// raw sends bytes and reads responses, one for each method given.
func raw(t testing.TB, sv *web.Service, request string, methods ...string) (responses []string) {
	t.Helper()
	nc, err := net.Dial("tcp", sv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := io.WriteString(nc, request); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(nc)
	for _, m := range methods {
		res, err := http.ReadResponse(br, &http.Request{Method: m})
		if err != nil {
			t.Fatalf("after %q: %v", responses, err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		responses = append(responses, fmt.Sprintf("%d %s", res.StatusCode, body))
	}
	return responses
}

func TestEveryKindOfHandlerAnswers(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %q %v", r.Method, r.URL.Path, r.Host, body, err)
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			c := client(t)
			for i := range 3 {
				res, body := get(t, c, url(sv, fmt.Sprint("/", i)))
				if want := fmt.Sprintf("GET /%d %s \"\" <nil>", i, sv.Addr()); body != want {
					t.Errorf("got %q, want %q", body, want)
				}
				if res.Header.Get("Content-Length") == "" || res.Header.Get("Date") == "" || res.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
					t.Errorf("header %v", res.Header)
				}
			}
			res, err := c.Post(url(sv, "/p"), "text/plain", strings.NewReader("hello"))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if body, _ := io.ReadAll(res.Body); string(body) != fmt.Sprintf("POST /p %s \"hello\" <nil>", sv.Addr()) {
				t.Errorf("got %q", body)
			}
		})
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s%s", r.URL.Path, body)
	}) {
		s.Lean = web.LeanRoutes(map[string]func(*web.LeanCtx){
			"/lean": func(c *web.LeanCtx) { c.Write(c.Path()) },
		})
		t.Run(name, func(t *testing.T) {
			got := raw(t, serve(t, s), "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"+
				"POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"+
				"GET /lean HTTP/1.1\r\nHost: a\r\n\r\n"+
				"HEAD /3 HTTP/1.1\r\nHost: a\r\n\r\n"+
				"POST /4 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"+
				"GET /lean HTTP/1.1\r\nHost: a\r\n\r\n"+
				"GET /5 HTTP/1.1\r\nHost: a\r\n\r\n",
				"GET", "POST", "GET", "HEAD", "POST", "GET", "GET")
			want := "200 /1,200 /2abc,200 /lean,200 ,200 /4x,200 /lean,200 /5"
			if strings.Join(got, ",") != want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestOptionsOfTheServerItself(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { t.Error("the handler was asked") }) {
		t.Run(name, func(t *testing.T) {
			if got := raw(t, serve(t, s), "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS"); got[0] != "200 " {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestOptionsOfTheServerItselfReachTheHandlerIfConfigured(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) }) {
		if name != "worker" && name != "inline" {
			continue // an http.ServeMux answers 400
		}
		s.DisableGeneralOptionsHandler = true
		t.Run(name, func(t *testing.T) {
			if got := raw(t, serve(t, s), "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS"); got[0] != "200 *" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestContextKnowsServerAndLocalAddress looks them up like libraries for net/http.
func TestContextKnowsServerAndLocalAddress(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		hs, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
		if !ok || hs.Handler == nil || hs.IdleTimeout == 0 {
			t.Errorf("the server is %#v", hs)
		}
		if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok || a.String() != r.Host {
			t.Errorf("the local address is %v", a)
		}
	}) {
		t.Run(name, func(t *testing.T) { get(t, client(t), url(serve(t, s), "/")) })
	}
}
